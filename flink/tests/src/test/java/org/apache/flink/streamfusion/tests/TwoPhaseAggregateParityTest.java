package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

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
                .states(7, KeptState.HEAP, KeptState.ROCKSDB_WITHOUT_CACHE)
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

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 7, 4096})
    void distinctSetsGrow(int size) throws Exception {
        twoPhases(size, "SELECT COUNT(*), COUNT(DISTINCT v), COUNT(DISTINCT v) FILTER (WHERE v > 3), COUNT(DISTINCT s) FILTER (WHERE v > 0), "
                        + "SUM(DISTINCT v) FILTER (WHERE s IS NOT NULL), AVG(DISTINCT v), COUNT(*) FILTER (WHERE v < 5), MAX(v) FROM t")
                .input("t", "k INT, v BIGINT, s STRING", smallRows())
                .expectNative("MiniBatchAssigner", "Calc", "LocalGroupAggregate", "Exchange", "GlobalGroupAggregate")
                .run();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 7, 4096})
    void distinctSetsAndExtremaRetract(int size) throws Exception {
        List<Row> changelog = new ArrayList<>(Changelogs.retracting(smallRows(), 3));
        changelog.addAll(Changelogs.emptied(smallRows(), 1));
        changelog.addAll(Changelogs.retracting(smallRows(), 2));
        twoPhases(size, "SELECT COUNT(DISTINCT v), COUNT(DISTINCT v) FILTER (WHERE v > 3), COUNT(DISTINCT s), MIN(v), MAX(s), "
                        + "MIN(v) FILTER (WHERE v > 2), SUM(DISTINCT v) FROM t")
                .changelog("t", "k INT, v BIGINT, s STRING", ALL_KINDS, changelog)
                .expectNative("MiniBatchAssigner", "Calc", "LocalGroupAggregate", "Exchange", "GlobalGroupAggregate")
                .run();
    }

    static Stream<EdgeValues.Column> distinctColumns() {
        return EdgeValues.allTypes().stream().filter(column -> !column.type().contains("BINARY") && !column.type().equals("BYTES"));
    }

    @ParameterizedTest
    @MethodSource("distinctColumns")
    void typesOfDistinctValues(EdgeValues.Column column) throws Exception {
        String query = "SELECT k, COUNT(DISTINCT v), COUNT(DISTINCT v) FILTER (WHERE f), MIN(v), MAX(v) FROM t GROUP BY k";
        twoPhases(7, query).input("t", ddl(column), rows(column)).run();
        twoPhases(7, query).changelog("t", ddl(column), ALL_KINDS, Changelogs.retracting(rows(column), 11)).run();
    }

    @Test
    void retractionsOfRowsNeverSeen() throws Exception {
        List<Row> changelog = new ArrayList<>();
        for (RowKind kind : new RowKind[] {RowKind.DELETE, RowKind.INSERT, RowKind.DELETE, RowKind.DELETE, RowKind.INSERT}) {
            for (Row row : smallRows()) {
                Row copy = Row.copy(row);
                copy.setKind(kind);
                changelog.add(copy);
            }
        }
        for (int size : new int[] {1, 2, 7, 100, 4096}) {
            twoPhases(size, "SELECT COUNT(DISTINCT v), COUNT(DISTINCT s), COUNT(DISTINCT s) FILTER (WHERE v > 3), MIN(v), MAX(s), "
                            + "SUM(DISTINCT v) FROM t")
                    .changelog("t", "k INT, v BIGINT, s STRING", ALL_KINDS, changelog)
                    .run();
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 7, 4096})
    void twoSubtasksLeaveTheSameTableOfDistinctValues(int size) throws Exception {
        twoPhases(size, "SELECT k, COUNT(DISTINCT v), COUNT(DISTINCT s) FILTER (WHERE v > 0), MAX(v) FROM t GROUP BY k")
                .changelog("t", "k INT, v BIGINT, s STRING", ALL_KINDS, Changelogs.retracting(smallRows(), 5))
                .parallelism(2)
                .finalTable()
                .run();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 7, 4096})
    void splitDistinctSetsGrow(int size) throws Exception {
        splitDistinct(size, "SELECT COUNT(DISTINCT v), COUNT(DISTINCT v) FILTER (WHERE v > 3), SUM(v), COUNT(*), MAX(v) FROM t")
                .input("t", "k INT, v BIGINT, s STRING", smallRows())
                .expectNative(SPLIT)
                .run();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 7, 4096})
    void splitDistinctSetsRetract(int size) throws Exception {
        splitDistinct(size, "SELECT COUNT(DISTINCT v), SUM(v), MIN(v), MAX(v) FILTER (WHERE v < 9) FROM t")
                .changelog("t", "k INT, v BIGINT, s STRING", ALL_KINDS, Changelogs.retracting(smallRows(), 3))
                .expectNative(SPLIT)
                .run();
    }

    /** The COUNT(*) of the query says which groups are there, also behind the incremental aggregate, where it is a sum. */
    @ParameterizedTest
    @ValueSource(strings = {"SELECT COUNT(DISTINCT v), COUNT(*) FROM t", "SELECT k, AVG(DISTINCT v), COUNT(*) FROM t GROUP BY k"})
    void groupsOfSplitDistinctSetsAreDeletedAndComeBack(String query) throws Exception {
        List<Row> changelog = new ArrayList<>(Changelogs.emptied(smallRows(), 1));
        changelog.addAll(Changelogs.retracting(smallRows(), 2));
        for (int size : new int[] {1, 7, 4096}) {
            splitDistinct(size, query)
                    .changelog("t", "k INT, v BIGINT, s STRING", ALL_KINDS, changelog)
                    .run();
        }
    }

    @Test
    void severalSplitDistinctSetsByKey() throws Exception {
        splitDistinct(7, "SELECT k, COUNT(DISTINCT v), COUNT(DISTINCT s), COUNT(*), MIN(s) FROM t GROUP BY k")
                .changelog("t", "k INT, v BIGINT, s STRING", ALL_KINDS, Changelogs.retracting(smallRows(), 13))
                .parallelism(2)
                .run();
    }

    @Test
    void splitDistinctSetsWithoutAnIncrementalAggregate() throws Exception {
        splitDistinct(7, "SELECT COUNT(DISTINCT v), SUM(v), MAX(v) FROM t")
                .set("table.optimizer.incremental-agg-enabled", "false")
                .changelog("t", "k INT, v BIGINT, s STRING", ALL_KINDS, Changelogs.retracting(smallRows(), 3))
                .run();
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void equalResultsOfDistinctSetsGoOutWithATimeToLive(boolean split) throws Exception {
        String query = "SELECT COUNT(DISTINCT v), MAX(v) FROM t";
        (split ? splitDistinct(7, query) : twoPhases(7, query))
                .changelog("t", "k INT, v BIGINT, s STRING", ALL_KINDS, Changelogs.retracting(smallRows(), 3))
                .set("table.exec.state.ttl", "1 h")
                .run();
    }

    /** Floats are added in the order of Flink's hash map. All phases stay, and say why. */
    @Test
    void phasesStayOnFlinkTogether() throws Exception {
        twoPhases(7, "SELECT SUM(DISTINCT d), COUNT(*) FROM t")
                .input("t", "d DOUBLE", Row.of(1.5), Row.of(2.5), Row.of(1.5))
                .expectStock("LocalGroupAggregate", "in the order of a hash map")
                .expectStock("Exchange", "LocalGroupAggregate does not")
                .expectStock("GlobalGroupAggregate", "in the order of a hash map")
                .run();
    }

    /** Flink's incremental aggregate feeds a native global one, if there are no maps between them. */
    @Test
    void nativeGlobalAggregateReadsAccumulatorsOfFlink() throws Exception {
        splitDistinct(7, "SELECT COUNT(DISTINCT v), SUM(d), COUNT(*) FROM t")
                .input("t", "v BIGINT, d DOUBLE", Row.of(1L, 1.5), Row.of(2L, 2.5), Row.of(1L, 1.5), Row.of(null, 0.5))
                .set("streamfusion.islands.weigh", "false")
                .expectStock("IncrementalGroupAggregate", "in the order of a hash map")
                .expectStock("LocalGroupAggregate", "IncrementalGroupAggregate does not")
                .expectStock("Exchange", "IncrementalGroupAggregate does not")
                .run();
    }

    private static final String[] SPLIT = {
        "MiniBatchAssigner", "Calc", "LocalGroupAggregate", "Exchange", "IncrementalGroupAggregate", "Exchange", "GlobalGroupAggregate"
    };

    /** Which buckets are in one bundle of the incremental aggregate is up to the order of Flink's hash map, so tables are compared. */
    private static Parity splitDistinct(int size, String query) {
        return twoPhases(size, query).set("table.optimizer.distinct-agg.split.enabled", "true").finalTable();
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
