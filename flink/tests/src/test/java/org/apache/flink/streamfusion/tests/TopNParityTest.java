package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** Top-N over inserted, updated and retracted rows, LIMIT and ORDER BY with LIMIT. */
@RequiresNative
class TopNParityTest {
    private static final String COLUMNS = "k INT, part STRING, v INT, d DOUBLE";
    private static final String ALL_KINDS = "+I,-U,+U,-D";
    private static final int ROWS = 400;

    @ParameterizedTest
    @ValueSource(strings = {
        "n <= 3", "n BETWEEN 2 AND 4", "n = 2", "n = 1",
    })
    void insertedRows(String range) throws Exception {
        for (String row : List.of("k, part, v, d, n", "k, part, v, d")) {
            inserted(topN(row, "PARTITION BY part ORDER BY v DESC, k", range)).batchSizes(1, 2, 7, 4096).run();
        }
    }

    @Test
    void textsWithNullsInEveryPlace() throws Exception {
        for (String order : List.of("part", "part DESC", "part ASC NULLS LAST, v", "v DESC NULLS LAST, part DESC")) {
            inserted(topN("k, part, v, n", "PARTITION BY k ORDER BY " + order, "n <= 4")).run();
        }
    }

    @Test
    void allRowsTogether() throws Exception {
        inserted(topN("k, part, v, n", "ORDER BY v, part", "n <= 5")).expectNative("Calc", "Exchange", "Rank").run();
    }

    @Test
    void firstRowsAsTheyCome() throws Exception {
        for (String row : List.of("k, v, n", "k, v")) {
            Parity.of(topN(row, "PARTITION BY k ORDER BY pt", "n BETWEEN 2 AND 4"))
                    .input("t", COLUMNS + ", pt AS PROCTIME()", rows(false))
                    .run();
        }
    }

    @Test
    void lastRankOfEachPartition() throws Exception {
        for (String row : List.of("k, part, v, n", "k, part, v")) {
            inserted(topN(row, "PARTITION BY k, part ORDER BY v DESC", "n <= k")).run();
            retracted(topN(row, "PARTITION BY k, part ORDER BY v DESC", "n <= k")).run();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"hashmap", "rocksdb"})
    void retractedRows(String backend) throws Exception {
        for (String row : List.of("k, part, v, d, n", "k, part, v, d")) {
            retracted(topN(row, "PARTITION BY part ORDER BY v DESC, k", "n <= 3"))
                    .set("state.backend.type", backend)
                    .batchSizes(1, 2, 7, 4096)
                    .expectNative("Exchange", "Rank")
                    .run();
        }
    }

    @Test
    void retractedRowsBehindAnOffset() throws Exception {
        retracted(topN("k, part, v, d, n", "PARTITION BY part ORDER BY v", "n BETWEEN 3 AND 5")).run();
    }

    @Test
    void retractedRowsAllTogether() throws Exception {
        retracted(topN("k, part, v, n", "ORDER BY v, part", "n <= 6")).run();
    }

    /** Nothing expires: that the plan runs natively, and what it emits. When rows expire is tested beside the operator. */
    @Test
    void retractedRowsWithATimeToLive() throws Exception {
        for (String row : List.of("k, part, v, d, n", "k, part, v, d")) {
            retracted(topN(row, "PARTITION BY part ORDER BY v DESC, k", "n <= 3"))
                    .set("table.exec.state.ttl", "1 h")
                    .batchSizes(1, 7, 4096)
                    .expectNative("Exchange", "Rank")
                    .run();
        }
    }

    @Test
    void countsThatOnlyGrow() throws Exception {
        String counts = "(SELECT k, part, COUNT(*) AS c, MAX(v) AS m FROM t GROUP BY k, part)";
        for (String row : List.of("k, part, c, m, n", "k, part, c, m")) {
            for (String range : List.of("n <= 2", "n = 1", "n BETWEEN 2 AND 3")) {
                Parity.of(topN(row, "PARTITION BY part ORDER BY c DESC", range).replace("FROM t)", "FROM " + counts + ")"))
                        .input("t", COLUMNS, rows(false))
                        .run();
            }
        }
    }

    @Test
    void upsertSinkWithoutUpdateBefore() throws Exception {
        inserted(topN("k, part, v, n", "PARTITION BY k ORDER BY v DESC, part", "n <= 3")).upsertBy("k", "n").run();
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "SELECT * FROM t LIMIT 5",
        "SELECT * FROM t LIMIT 5 OFFSET 3",
        "SELECT * FROM t ORDER BY v LIMIT 5",
        "SELECT * FROM t ORDER BY part DESC, v LIMIT 4 OFFSET 2",
    })
    void limits(String query) throws Exception {
        inserted(query).batchSizes(1, 2, 7, 4096).run();
    }

    @ParameterizedTest
    @ValueSource(strings = {"SELECT * FROM t LIMIT 5", "SELECT * FROM t ORDER BY v LIMIT 5"})
    void limitsOfAChangelog(String query) throws Exception {
        retracted(query).batchSizes(1, 2, 7, 4096).run();
    }

    @Test
    void inParallel() throws Exception {
        inserted(topN("k, part, v, n", "PARTITION BY k ORDER BY v DESC, part", "n <= 3")).parallelism(2).run();
    }

    /** Flink emits row by row whatever the options say: what the changelogs leave is compared. */
    @ParameterizedTest
    @ValueSource(ints = {1, 5, 1000})
    void bundles(int size) throws Exception {
        for (String row : List.of("k, part, v, d, n", "k, part, v, d")) {
            for (String range : List.of("n <= 3", "n = 1")) {
                String over = "PARTITION BY part ORDER BY v DESC, k";
                inBundles(inserted(topN(row, over, range)), size).batchSizes(1, 7, 4096).run();
                inBundles(changelogOfRowsThatAreThere(topN(row, over, range)), size).batchSizes(1, 7, 4096).run();
            }
        }
        inBundles(changelogOfRowsThatAreThere(topN("k, part, v, d, n", "PARTITION BY k ORDER BY v", "n BETWEEN 2 AND 4")), size)
                .expectNative("MiniBatchAssigner", "Exchange", "Rank")
                .run();
    }

    private static Parity inBundles(Parity parity, int size) {
        return parity.set("table.exec.mini-batch.enabled", "true")
                .set("table.exec.mini-batch.size", Integer.toString(size))
                .set("table.exec.mini-batch.allow-latency", "1 h")
                .set("streamfusion.top-n.mini-batch", "true")
                .finalTable();
    }

    @Test
    void whatDependsOnFlinksHeapStaysOnFlink() throws Exception {
        refused(inserted(topN("k, v, n", "PARTITION BY k ORDER BY d", "n <= 3")), "Rank", "FLOAT or DOUBLE");
        refused(
                inserted(topN("k, v, n", "PARTITION BY k ORDER BY v", "n <= 3")).set("table.exec.state.ttl", "1 h"),
                "Rank",
                "time-to-live");
        refused(retracted("SELECT * FROM t ORDER BY v LIMIT 4 OFFSET 2"), "SortLimit", "offset");
    }

    private static void refused(Parity parity, String kind, String reason) {
        boolean stays = parity.explain().stockNodes().stream()
                .anyMatch(node -> node.kind().equals(kind)
                        && node.reasons().stream().anyMatch(given -> given.contains(reason)));
        if (!stays) {
            throw new AssertionError(kind + " does not stay on Flink for " + reason + ": " + parity.explain().decisions());
        }
    }

    static List<EdgeValues.Column> sortableTypes() {
        return EdgeValues.allTypes().stream()
                .filter(column -> !List.of("FLOAT", "DOUBLE").contains(column.type()))
                .toList();
    }

    @ParameterizedTest
    @MethodSource("sortableTypes")
    void orderOfEveryType(EdgeValues.Column column) throws Exception {
        Random random = new Random(4);
        List<Row> rows = new ArrayList<>();
        for (Row row : EdgeValues.rows(List.of(column), 120, 5)) {
            rows.add(Row.of(random.nextInt(3), row.getField(0)));
        }
        for (String order : List.of("ASC", "DESC")) {
            Parity.of(topN("k, n, " + column.name(), "PARTITION BY k ORDER BY " + column.name() + " " + order, "n <= 4"))
                    .input("t", "k INT, " + EdgeValues.ddl(List.of(column)), rows)
                    .run();
        }
    }

    private static String topN(String row, String over, String range) {
        return "SELECT %s FROM (SELECT *, ROW_NUMBER() OVER (%s) AS n FROM t) WHERE %s".formatted(row, over, range);
    }

    private static Parity inserted(String query) {
        return Parity.of(query).input("t", COLUMNS, rows(false));
    }

    private static Parity retracted(String query) {
        return Parity.of(query).changelog("t", COLUMNS, ALL_KINDS, rows(true));
    }

    /** Flink's changelog contradicts itself where rows are retracted that it never saw. */
    private static Parity changelogOfRowsThatAreThere(String query) {
        return Parity.of(query).changelog("t", COLUMNS, ALL_KINDS, rows(true, 0));
    }

    /** Few keys and values: many ties, equal rows and NULLs; in a changelog also retractions of rows never seen. */
    private static List<Row> rows(boolean changelog) {
        return rows(changelog, 8);
    }

    /** One retraction of so many is of a row never seen; of 0 none. */
    private static List<Row> rows(boolean changelog, int unseen) {
        Random random = new Random(23);
        Double[] doubles = {0.0, -0.0, Double.NaN, null};
        List<Row> rows = new ArrayList<>();
        List<Row> live = new ArrayList<>();
        for (int i = 0; i < ROWS; i++) {
            Row row = Row.of(
                    random.nextInt(4),
                    random.nextInt(6) == 0 ? null : "part " + random.nextInt(3),
                    random.nextInt(6) == 0 ? null : random.nextInt(12),
                    doubles[random.nextInt(doubles.length)]);
            boolean retracts = changelog && random.nextInt(5) < 2 && (unseen > 0 || !live.isEmpty());
            if (retracts && !live.isEmpty() && (unseen == 0 || random.nextInt(unseen) > 0)) {
                row = live.remove(random.nextInt(live.size()));
            } else if (!retracts) {
                live.add(row);
            }
            RowKind kind = retracts
                    ? (random.nextBoolean() ? RowKind.DELETE : RowKind.UPDATE_BEFORE)
                    : (changelog && random.nextBoolean() ? RowKind.UPDATE_AFTER : RowKind.INSERT);
            Row changed = Row.copy(row);
            changed.setKind(kind);
            rows.add(changed);
        }
        return rows;
    }
}
