package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;

/** Every aggregate function over every type that Flink allows, over growing and over retracting input. */
@RequiresNative
class GroupAggregateParityTest {
    private static final int ROWS = 80;
    private static final int KEYS = 4;
    private static final String ALL_KINDS = "+I,-U,+U,-D";

    /** Flink counts values of these types and knows no other aggregate of them. */
    private static final Set<String> ONLY_COUNTED = Set.of("c_binary", "c_varbinary", "c_bytes");

    static Stream<EdgeValues.Column> numbers() {
        return EdgeValues.numbers().stream().filter(GroupAggregateParityTest::canBeSummed);
    }

    static Stream<EdgeValues.Column> others() {
        return EdgeValues.allTypes().stream()
                .filter(column -> !EdgeValues.numbers().contains(column) || !canBeSummed(column));
    }

    /** Flink cannot plan a SUM of this type over retracting input: its zero does not fit. */
    private static boolean canBeSummed(EdgeValues.Column column) {
        return !column.name().equals("c_decimal_38_38");
    }

    @ParameterizedTest
    @MethodSource("numbers")
    void numbersGrow(EdgeValues.Column column) throws Exception {
        Parity.of(select(numeric()))
                .input("t", ddl(column), rows(column))
                .run();
    }

    @ParameterizedTest
    @MethodSource("numbers")
    void numbersRetract(EdgeValues.Column column) throws Exception {
        Parity.of(select(numeric()))
                .changelog("t", ddl(column), ALL_KINDS, Changelogs.retracting(rows(column), 11))
                .run();
    }

    @ParameterizedTest
    @MethodSource("others")
    void valuesGrow(EdgeValues.Column column) throws Exception {
        Parity.of(select(functionsOf(column))).input("t", ddl(column), rows(column)).run();
    }

    @ParameterizedTest
    @MethodSource("others")
    void valuesRetract(EdgeValues.Column column) throws Exception {
        Parity.of(select(functionsOf(column)))
                .changelog("t", ddl(column), ALL_KINDS, Changelogs.retracting(rows(column), 12))
                .run();
    }

    @Test
    void upsertSinkGetsNoUpdateBefore() throws Exception {
        Parity.of("SELECT k, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS m FROM t GROUP BY k")
                .input("t", "k STRING NOT NULL, v INT", smallRows())
                .upsertBy("k")
                .batchSizes(1, 2, 7, 8192)
                .run();
    }

    @Test
    void upsertSinkOverRetractingInput() throws Exception {
        Parity.of("SELECT k, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS m FROM t GROUP BY k")
                .changelog("t", "k STRING NOT NULL, v INT", ALL_KINDS, Changelogs.retracting(smallRows(), 5))
                .upsertBy("k")
                .run();
    }

    @Test
    void groupsThatBecomeEmptyAreDeletedAndComeBack() throws Exception {
        List<Row> changelog = new ArrayList<>(Changelogs.emptied(smallRows(), 1));
        changelog.addAll(Changelogs.retracting(smallRows(), 2));
        Parity.of("SELECT k, COUNT(*), COUNT(v), SUM(v), MIN(v), AVG(v), COUNT(DISTINCT v) FROM t GROUP BY k")
                .changelog("t", "k STRING, v INT", ALL_KINDS, changelog)
                .states(7, KeptState.values())
                .run();
    }

    @Test
    void retractionsOfRowsNeverSeen() throws Exception {
        List<Row> changelog = new ArrayList<>();
        smallRows().forEach(row -> changelog.add(kind(RowKind.DELETE, row)));
        smallRows().forEach(row -> changelog.add(kind(RowKind.INSERT, row)));
        Parity.of("SELECT k, COUNT(*), COUNT(v), SUM(v) FROM t GROUP BY k")
                .changelog("t", "k STRING, v INT", ALL_KINDS, changelog)
                .run();
    }

    @Test
    void aggregateOfAnAggregate() throws Exception {
        Parity.of("SELECT n, COUNT(*), SUM(s), MIN(k), MAX(s), AVG(s) FROM "
                        + "(SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k) GROUP BY n")
                .input("t", "k STRING, v INT", smallRows())
                .batchSizes(1, 2, 7, 8192)
                .run();
    }

    @Test
    void globalAggregateOfAnAggregate() throws Exception {
        Parity.of("SELECT COUNT(*), SUM(s), MAX(n) FROM (SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k)")
                .input("t", "k STRING, v INT", smallRows())
                .run();
    }

    @Test
    void distinctRows() throws Exception {
        Parity.of("SELECT DISTINCT k, v FROM t").input("t", "k STRING, v INT", smallRows()).run();
    }

    @Test
    void distinctRowsOfRetractingInput() throws Exception {
        Parity.of("SELECT DISTINCT v FROM t")
                .changelog("t", "k STRING, v INT", ALL_KINDS, Changelogs.retracting(smallRows(), 9))
                .run();
    }

    @Test
    void havingFiltersChanges() throws Exception {
        Parity.of("SELECT k, SUM(v) AS s FROM t GROUP BY k HAVING SUM(v) > 0")
                .input("t", "k STRING, v INT", smallRows())
                .run();
    }

    @Test
    void filteredDistinctCounts() throws Exception {
        Parity.of("SELECT k, COUNT(DISTINCT v) FILTER (WHERE v > 0), COUNT(DISTINCT v) FILTER (WHERE v < 0), "
                        + "COUNT(DISTINCT v), SUM(DISTINCT v) FILTER (WHERE v > 2), COUNT(*) FILTER (WHERE v IS NULL) "
                        + "FROM t GROUP BY k")
                .changelog("t", "k STRING, v INT", ALL_KINDS, Changelogs.retracting(smallRows(), 21))
                .batchSizes(1, 2, 7, 8192)
                .run();
    }

    @Test
    void groupingSets() throws Exception {
        Parity.of("SELECT k, v, COUNT(*) FROM t GROUP BY GROUPING SETS ((k), (v), ())")
                .input("t", "k STRING, v INT", smallRows())
                .expectNative("Expand", "Exchange", "GroupAggregate", "Calc")
                .batchSizes(1, 2, 7, 8192)
                .run();
    }

    @Test
    void cubeOverInputThatRetracts() throws Exception {
        Parity.of("SELECT k, v, GROUPING(k), GROUPING_ID(k, v), COUNT(*), SUM(v) FROM t GROUP BY CUBE (k, v)")
                .changelog("t", "k STRING, v INT", ALL_KINDS, Changelogs.retracting(smallRows(), 5))
                .expectNative("Expand", "Exchange", "GroupAggregate", "Calc")
                .batchSizes(1, 2, 7, 8192)
                .run();
    }

    @Test
    void manyKeysInTwoSubtasks() throws Exception {
        List<Row> rows = new ArrayList<>();
        for (int i = 0; i < 3000; i++) {
            rows.add(Row.of("key " + i % 700, (long) i));
        }
        Parity.of("SELECT k, COUNT(*), SUM(v), MAX(v), MIN(v) FROM t GROUP BY k")
                .input("t", "k STRING, v BIGINT", rows)
                .parallelism(2)
                .run();
    }

    /** Long enough for some checkpoints, which copy what is written meanwhile and must not be seen in the result. */
    @Test
    void checkpointsDoNotShow() throws Exception {
        List<Row> rows = new ArrayList<>();
        for (int i = 0; i < 20_000; i++) {
            rows.add(Row.of(i * 31 % 400, i % 3 == 0 ? null : i % 3 == 1, i % 17 == 0 ? null : (long) (i * 7919 % 1000)));
        }
        Parity.of(select(numeric()))
                .set("execution.checkpointing.interval", "10 ms")
                .changelog("t", "k INT, f BOOLEAN, x BIGINT", ALL_KINDS, Changelogs.retracting(rows, 13))
                .batchSizes(7, 8192)
                .run();
    }

    private static String select(List<String> aggregates) {
        List<String> projection = new ArrayList<>(List.of("k"));
        aggregates.forEach(aggregate -> projection.add(aggregate + " AS a" + projection.size()));
        return "SELECT " + String.join(", ", projection) + " FROM t GROUP BY k";
    }

    private static List<String> numeric() {
        return List.of(
                "COUNT(*)",
                "COUNT(x)",
                "SUM(x)",
                "AVG(x)",
                "MIN(x)",
                "MAX(x)",
                "FIRST_VALUE(x)",
                "LAST_VALUE(x)",
                "COUNT(DISTINCT x)",
                "SUM(DISTINCT x)",
                "AVG(DISTINCT x)",
                "MAX(DISTINCT x)",
                "COUNT(x) FILTER (WHERE f)",
                "SUM(x) FILTER (WHERE f)",
                "MIN(x) FILTER (WHERE f)",
                "SUM(DISTINCT x) FILTER (WHERE f)");
    }

    private static List<String> functionsOf(EdgeValues.Column column) {
        List<String> functions = new ArrayList<>(List.of("COUNT(*)", "COUNT(x)", "COUNT(x) FILTER (WHERE f)"));
        if (!ONLY_COUNTED.contains(column.name())) {
            functions.addAll(List.of(
                    "COUNT(DISTINCT x)",
                    "COUNT(DISTINCT x) FILTER (WHERE f)",
                    "FIRST_VALUE(x)",
                    "LAST_VALUE(x)",
                    "LAST_VALUE(x) FILTER (WHERE f)",
                    "MIN(x)",
                    "MAX(x)",
                    "MAX(x) FILTER (WHERE f)"));
        }
        return functions;
    }

    private static String ddl(EdgeValues.Column column) {
        return "k INT, f BOOLEAN, x " + column.type();
    }

    private static List<Row> rows(EdgeValues.Column column) {
        List<Row> rows = new ArrayList<>();
        for (Row value : EdgeValues.rows(List.of(column), ROWS, 4)) {
            int number = rows.size();
            rows.add(Row.of(number % KEYS, number % 3 == 0 ? null : number % 3 == 1, value.getField(0)));
        }
        return rows;
    }

    private static List<Row> smallRows() {
        List<Row> rows = new ArrayList<>();
        for (int i = 0; i < 60; i++) {
            rows.add(Row.of("k" + i % 7, i % 11 == 0 ? null : i * 37 % 13 - 6));
        }
        return rows;
    }

    private static Row kind(RowKind kind, Row row) {
        Row copy = Row.copy(row);
        copy.setKind(kind);
        return copy;
    }
}
