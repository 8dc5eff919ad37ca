package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.util.ArrayList;
import java.util.List;

/**
 * GROUP BY of one phase in bundles. No marker comes while a job runs: bundles end by their size and with the input. Flink goes
 * through the groups of a bundle as a hash map does, so that the order is compared group by group.
 */
@RequiresNative
class MiniBatchGroupAggregateParityTest {
    private static final String ALL_KINDS = "+I,-U,+U,-D";
    private static final String INPUT = "k STRING, f BOOLEAN, x BIGINT, d DOUBLE, m DECIMAL(10, 2), s STRING";
    private static final String FUNCTIONS = "COUNT(*), COUNT(x), SUM(x), AVG(x), MIN(x), MAX(x), FIRST_VALUE(x), LAST_VALUE(x), "
            + "SUM(d), AVG(d), MIN(d), SUM(m), AVG(m), MAX(m), MIN(s), MAX(s), FIRST_VALUE(s), LAST_VALUE(s), "
            + "COUNT(DISTINCT x), COUNT(DISTINCT x) FILTER (WHERE f), SUM(DISTINCT x) FILTER (WHERE x > 2), COUNT(DISTINCT s), "
            + "SUM(x) FILTER (WHERE f), MIN(x) FILTER (WHERE f)";
    private static final String RESULTS = "n BIGINT, nx BIGINT, sx BIGINT, ax BIGINT, minx BIGINT, maxx BIGINT, fx BIGINT, lx BIGINT, "
            + "sd DOUBLE, ad DOUBLE, mind DOUBLE, sm DECIMAL(38, 2), am DECIMAL(38, 6), maxm DECIMAL(10, 2), mins STRING, maxs STRING, "
            + "fs STRING, ls STRING, dx BIGINT, dfx BIGINT, dsx BIGINT, ds BIGINT, sfx BIGINT, minfx BIGINT";

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 7, 4096})
    void everyFunctionGrows(int size) throws Exception {
        bundles(size, into("by_key", "k STRING, " + RESULTS)
                        .input("t", INPUT, rows(150)))
                .batchSizes(1, 2, 7, 4096)
                .run();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 7, 4096})
    void everyFunctionRetracts(int size) throws Exception {
        bundles(size, into("by_key", "k STRING, " + RESULTS)
                        .changelog("t", INPUT, ALL_KINDS, Changelogs.retracting(rows(150), 31)))
                .batchSizes(1, 2, 7, 4096)
                .run();
    }

    @ParameterizedTest
    @CsvSource({"7, hashmap", "7, rocksdb", "4096, rocksdb"})
    void groupsThatBecomeEmptyAreDeletedAndComeBack(int size, String backend) throws Exception {
        List<Row> changelog = new ArrayList<>(Changelogs.emptied(rows(60), 1));
        changelog.addAll(Changelogs.retracting(rows(60), 2));
        bundles(size, into("by_key", "k STRING, " + RESULTS).changelog("t", INPUT, ALL_KINDS, changelog))
                .set("state.backend.type", backend)
                .run();
    }

    /** In full bundles, so that none has a group of which nothing is left before others: Flink 2.2 loses those. */
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 7, 4096})
    void retractionsOfRowsNeverSeen(int size) throws Exception {
        List<Row> changelog = new ArrayList<>();
        for (RowKind kind : List.of(RowKind.DELETE, RowKind.INSERT)) {
            for (Row row : rows(42)) {
                Row copy = Row.copy(row);
                copy.setKind(kind);
                changelog.add(copy);
            }
        }
        bundles(size, into("by_key", "k STRING, " + RESULTS).changelog("t", INPUT, ALL_KINDS, changelog)).run();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 7, 4096})
    void upsertSinkGetsNoUpdateBefore(int size) throws Exception {
        bundles(size, Parity.of("SELECT k, COUNT(*) AS n, SUM(x) AS sx, MAX(s) AS ms FROM t GROUP BY k")
                        .changelog("t", INPUT.replace("k STRING", "k STRING NOT NULL"), ALL_KINDS, Changelogs.retracting(rows(90), 5))
                        .upsertBy("k"))
                .run();
    }

    @ParameterizedTest
    @ValueSource(ints = {2, 4096})
    void equalResultsGoOutWithATimeToLive(int size) throws Exception {
        bundles(size, Parity.of("INSERT INTO by_key SELECT k, COUNT(*), MAX(x), SUM(x), COUNT(DISTINCT s) FROM t GROUP BY k")
                        .changelog("t", INPUT, ALL_KINDS, Changelogs.retracting(rows(90), 6))
                        .sink("by_key", "k STRING, n BIGINT, mx BIGINT, sx BIGINT, ds BIGINT, PRIMARY KEY (k) NOT ENFORCED"))
                .set("table.exec.state.ttl", "1 h")
                .run();
    }

    @Test
    void aggregateWithoutKeys() throws Exception {
        bundles(7, Parity.of("SELECT COUNT(*), SUM(x), MAX(s), COUNT(DISTINCT x) FROM t")
                        .changelog("t", INPUT, ALL_KINDS, Changelogs.retracting(rows(90), 7)))
                .run();
    }

    @Test
    void nodesOfThePlanRunNatively() throws Exception {
        bundles(7, Parity.of("INSERT INTO by_key SELECT k, SUM(x) FROM t GROUP BY k")
                        .input("t", "k STRING, x BIGINT", Row.of("a", 1L), Row.of("a", 2L))
                        .sink("by_key", "k STRING, sx BIGINT, PRIMARY KEY (k) NOT ENFORCED"))
                .expectNative("MiniBatchAssigner", "Exchange", "GroupAggregate")
                .run();
    }

    @Test
    void twoSubtasks() throws Exception {
        bundles(7, into("by_key", "k STRING, " + RESULTS)
                        .changelog("t", INPUT, ALL_KINDS, Changelogs.retracting(rows(200), 8)))
                .parallelism(2)
                .run();
    }

    /** Long enough for some checkpoints, which end bundles: what they leave in the end is the same. */
    @Test
    void checkpointsEndBundles() throws Exception {
        bundles(4096, into("by_key", "k STRING, " + RESULTS)
                        .changelog("t", INPUT, ALL_KINDS, Changelogs.retracting(rows(15_000), 9)))
                .set("execution.checkpointing.interval", "10 ms")
                .finalTable()
                .batchSizes(7, 4096)
                .run();
    }

    /** All functions, into a sink that takes -U and has a key, so that groups can be told apart. */
    private static Parity into(String sink, String columns) {
        return Parity.of("INSERT INTO " + sink + " SELECT k, " + FUNCTIONS + " FROM t GROUP BY k")
                .sink(sink, columns + ", PRIMARY KEY (k) NOT ENFORCED");
    }

    private static Parity bundles(int size, Parity parity) {
        return parity.set("table.exec.mini-batch.enabled", "true")
                .set("table.exec.mini-batch.size", Integer.toString(size))
                .set("table.exec.mini-batch.allow-latency", "1 h")
                .set("table.optimizer.agg-phase-strategy", "ONE_PHASE")
                .perKey();
    }

    /** Few keys and few values, some of them NULL. */
    private static List<Row> rows(int count) {
        List<Row> rows = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int value = i * 37 % 13 - 6;
            rows.add(Row.of(
                    "k" + i * 31 % 7,
                    i % 3 == 0 ? null : i % 3 == 1,
                    i % 11 == 0 ? null : (long) value,
                    i % 9 == 0 ? null : value / 4.0,
                    i % 8 == 0 ? null : java.math.BigDecimal.valueOf(value * 101L, 2),
                    i % 10 == 0 ? null : "text " + value));
        }
        return rows;
    }
}
