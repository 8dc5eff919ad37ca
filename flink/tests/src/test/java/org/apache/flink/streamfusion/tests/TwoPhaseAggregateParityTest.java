package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** Local and global aggregates, in bundles of several sizes, with both sides native or one of them on Flink. */
@RequiresNative
class TwoPhaseAggregateParityTest {
    private static final String ALL_KINDS = "+I,-U,+U,-D";
    private static final int ROWS = 60;

    /** Flink cannot plan a SUM of this type over retracting input: its zero does not fit. */
    static Stream<EdgeValues.Column> numbers() {
        return EdgeValues.numbers().stream().filter(column -> !column.name().equals("c_decimal_38_38"));
    }

    @ParameterizedTest
    @MethodSource("numbers")
    void numbersGrow(EdgeValues.Column column) throws Exception {
        twoPhases(7, "SELECT k, COUNT(*), COUNT(v), SUM(v), AVG(v), MIN(v), MAX(v), SUM(v) FILTER (WHERE f) FROM t GROUP BY k")
                .input("t", ddl(column), rows(column))
                .run();
    }

    @ParameterizedTest
    @MethodSource("numbers")
    void numbersRetract(EdgeValues.Column column) throws Exception {
        twoPhases(7, "SELECT k, COUNT(v), SUM(v), AVG(v), COUNT(*) FILTER (WHERE f) FROM t GROUP BY k")
                .changelog("t", ddl(column), ALL_KINDS, Changelogs.retracting(rows(column), 11))
                .run();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 7, 4096})
    void bundlesEndWhereFlinksEnd(int size) throws Exception {
        twoPhases(size, "SELECT COUNT(*), SUM(v), MIN(v), MAX(s), AVG(v) FROM t")
                .input("t", "k INT, v BIGINT, s STRING", smallRows())
                .run();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 7, 4096})
    void retractingBundlesEndWhereFlinksEnd(int size) throws Exception {
        twoPhases(size, "SELECT SUM(v), AVG(v), COUNT(s) FROM t")
                .changelog("t", "k INT, v BIGINT, s STRING", ALL_KINDS, Changelogs.retracting(smallRows(), 3))
                .run();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 7, 4096})
    void twoSubtasksLeaveTheSameTable(int size) throws Exception {
        twoPhases(size, "SELECT k, s, COUNT(*), SUM(v), MIN(v) FROM t GROUP BY k, s")
                .input("t", "k INT, v BIGINT, s STRING", smallRows())
                .parallelism(2)
                .finalTable()
                .run();
    }

    @Test
    void groupsThatBecomeEmptyAreDeletedAndComeBack() throws Exception {
        List<Row> changelog = new ArrayList<>(Changelogs.emptied(smallRows(), 1));
        changelog.addAll(Changelogs.retracting(smallRows(), 2));
        for (int size : new int[] {1, 2, 7, 4096}) {
            twoPhases(size, "SELECT COUNT(*), SUM(v) FROM t")
                    .changelog("t", "k INT, v BIGINT, s STRING", ALL_KINDS, changelog)
                    .run();
        }
    }

    /** Accumulators in Flink's own columns: Flink's global aggregate reads those of a native local one. */
    @Test
    void globalAggregateOnFlinkReadsNativeAccumulators() throws Exception {
        twoPhases(7, "SELECT k, SUM(v), AVG(v), MAX(s), COUNT(*) FROM t GROUP BY k")
                .input("t", "k INT, v BIGINT, s STRING", smallRows())
                .set("streamfusion.islands.weigh", "false")
                // by class, as no native state knows it
                .set("state.backend.type", "org.apache.flink.runtime.state.hashmap.HashMapStateBackendFactory")
                .expectStock("GlobalGroupAggregate", "cannot host native state")
                .expectStock("Exchange", "stays on Flink")
                .run();
    }

    /** The other way round: where DISTINCT aggregates are split, Flink's incremental aggregate feeds a native global one. */
    @Test
    void nativeGlobalAggregateReadsAccumulatorsOfFlink() throws Exception {
        splitDistinct("SELECT COUNT(DISTINCT v), SUM(v), COUNT(*), MAX(v) FROM t")
                .input("t", "k INT, v BIGINT, s STRING", smallRows())
                .run();
    }

    @Test
    void nativeGlobalAggregateReadsRetractingAccumulatorsOfFlink() throws Exception {
        splitDistinct("SELECT COUNT(DISTINCT v), SUM(v), AVG(k) FROM t")
                .changelog("t", "k INT, v BIGINT, s STRING", ALL_KINDS, Changelogs.retracting(smallRows(), 3))
                .run();
    }

    private static Parity splitDistinct(String query) {
        return twoPhases(7, query)
                .set("table.optimizer.distinct-agg.split.enabled", "true")
                .set("streamfusion.islands.weigh", "false")
                .expectStock("LocalGroupAggregate", "DISTINCT aggregates are not supported natively in two phases")
                .expectStock("IncrementalGroupAggregate", "not supported natively")
                .expectStock("Exchange", "LocalGroupAggregate does not");
    }

    /** A query in mini-batch mode. Flink's order over groups is that of a hash map, so tables are compared where there are several. */
    private static Parity twoPhases(int size, String query) {
        Parity parity = Parity.of(query)
                .set("table.exec.mini-batch.enabled", "true")
                .set("table.exec.mini-batch.size", String.valueOf(size))
                .set("table.exec.mini-batch.allow-latency", "1 h")
                .set("table.optimizer.agg-phase-strategy", "TWO_PHASE")
                .batchSizes(1, 5, 8192);
        return query.contains("GROUP BY") ? parity.finalTable() : parity;
    }

    private static String ddl(EdgeValues.Column column) {
        return "k INT, v " + column.type() + ", f BOOLEAN";
    }

    private static List<Row> rows(EdgeValues.Column column) {
        List<Row> rows = new ArrayList<>();
        for (Row value : EdgeValues.rows(List.of(column), ROWS, 4)) {
            int number = rows.size();
            rows.add(Row.of(number * 7 % 3, value.getField(0), number % 4 == 0 ? null : number % 3 == 1));
        }
        return rows;
    }

    private static List<Row> smallRows() {
        List<Row> rows = new ArrayList<>();
        for (int i = 0; i < ROWS; i++) {
            Long value = i % 11 == 0 ? null : (long) (i * 31 % 17 - 5);
            rows.add(Row.of(i % 13 == 0 ? null : (Object) (i * 7 % 5), value, i % 6 == 0 ? null : "s" + i % 4));
        }
        return rows;
    }
}
