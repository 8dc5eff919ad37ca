package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** Upsert sources, whose rows of before a change come from state. */
@RequiresNative
class ChangelogNormalizeParityTest {
    private static final String UPSERTS = "+I,+U,-D";
    private static final String ALL_KINDS = "+I,-U,+U,-D";
    private static final String COLUMNS =
            "k INT, part STRING, v INT, d DOUBLE, PRIMARY KEY (k, part) NOT ENFORCED";
    private static final int ROWS = 300;

    @ParameterizedTest
    @ValueSource(strings = {"hashmap", "rocksdb"})
    void upsertsBecomeAChangelog(String backend) throws Exception {
        upserts("SELECT k, part, v, d FROM t")
                .set("state.backend.type", backend)
                .batchSizes(1, 2, 7, 4096)
                .expectNative("Exchange", "ChangelogNormalize")
                .run();
    }

    @Test
    void keyOfOneColumn() throws Exception {
        Parity.of("SELECT v, COUNT(*) FROM t GROUP BY v")
                .changelog("t", "k INT, v INT, PRIMARY KEY (k) NOT ENFORCED", UPSERTS, rows(row ->
                        Row.ofKind(row.getKind(), row.getField(0), row.getField(2))))
                .run();
    }

    @Test
    void conditionIsPushedIntoIt() throws Exception {
        upserts("SELECT k, part, v, d FROM t WHERE v > 0")
                .batchSizes(1, 2, 7, 4096)
                .expectNative("Exchange", "ChangelogNormalize")
                .run();
    }

    @Test
    void conditionWithATimeToLive() throws Exception {
        upserts("SELECT k, part, v, d FROM t WHERE v > 0").set("table.exec.state.ttl", "1 h").run();
    }

    @Test
    void equalUpdatesGoOutWithATimeToLive() throws Exception {
        upserts("SELECT k, part, v, d FROM t").set("table.exec.state.ttl", "1 h").run();
    }

    @Test
    void twoReadersWithConditionsOfTheirOwn() throws Exception {
        Parity.of(
                        "INSERT INTO few SELECT k, part, v FROM t WHERE v > 0",
                        "INSERT INTO others SELECT k, part, v FROM t WHERE v IS NULL")
                .changelog("t", COLUMNS, UPSERTS, rows(row -> row))
                .sink("few", "k INT, part STRING, v INT")
                .sink("others", "k INT, part STRING, v INT")
                .run();
    }

    @Test
    void changelogWithDuplicates() throws Exception {
        Parity.of("SELECT k, part, v, d FROM t")
                .changelog("t", COLUMNS, ALL_KINDS, rows(row -> row))
                .set("table.exec.source.cdc-events-duplicate", "true")
                .batchSizes(1, 2, 7, 4096)
                .expectNative("DropUpdateBefore", "Exchange", "ChangelogNormalize")
                .run();
    }

    @Test
    void inParallel() throws Exception {
        upserts("SELECT k, part, v, d FROM t WHERE v IS NOT NULL").parallelism(2).run();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 7, 4096})
    void bundlesOfAnySize(int size) throws Exception {
        bundles(size, "SELECT k, part, v, d FROM t")
                .batchSizes(1, 2, 7, 4096)
                .expectNative("Exchange", "ChangelogNormalize")
                .run();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 7, 4096})
    void conditionIsAskedAboutTheLastRowOfABundle(int size) throws Exception {
        bundles(size, "SELECT k, part, v, d FROM t WHERE v > 0")
                .batchSizes(1, 2, 7, 4096)
                .expectNative("Exchange", "ChangelogNormalize")
                .run();
    }

    @Test
    void bundlesWithATimeToLiveOnRocksDb() throws Exception {
        bundles(7, "SELECT k, part, v, d FROM t WHERE v > 0")
                .set("table.exec.state.ttl", "1 h")
                .set("state.backend.type", "rocksdb")
                .run();
    }

    @Test
    void bundlesInParallel() throws Exception {
        bundles(7, "SELECT k, part, v, d FROM t WHERE v IS NOT NULL").parallelism(2).run();
    }

    /** Into a sink that takes -U and has a key. No marker comes while the job runs: the planner wants none for this node alone. */
    private static Parity bundles(int size, String select) {
        return Parity.of("INSERT INTO latest " + select)
                .changelog("t", COLUMNS, UPSERTS, rows(row -> row))
                .sink("latest", COLUMNS)
                .perKey()
                .set("table.exec.mini-batch.enabled", "true")
                .set("table.exec.mini-batch.size", Integer.toString(size))
                .set("table.exec.mini-batch.allow-latency", "1 h");
    }

    @Test
    void rowsOfEveryType() throws Exception {
        List<EdgeValues.Column> columns = EdgeValues.allTypes();
        List<Row> rows = EdgeValues.apart(columns, column -> {
            Random random = new Random(4);
            List<Row> ofType = new ArrayList<>();
            for (Row row : EdgeValues.rows(List.of(column), 80, 5)) {
                RowKind kind = random.nextInt(4) == 0 ? RowKind.DELETE : RowKind.UPDATE_AFTER;
                ofType.add(Row.ofKind(kind, random.nextInt(5), row.getField(0)));
            }
            return ofType;
        });
        Parity.of("SELECT * FROM t")
                .changelog("t", "k INT, " + EdgeValues.apartDdl(columns) + ", PRIMARY KEY (k) NOT ENFORCED", UPSERTS, rows)
                .run();
    }

    private static Parity upserts(String select) {
        return Parity.of(select).changelog("t", COLUMNS, UPSERTS, rows(row -> row));
    }

    /** Few keys and values; many equal rows, deletes of rows never seen, and deletes with nothing but their key. */
    private static List<Row> rows(java.util.function.UnaryOperator<Row> form) {
        Random random = new Random(17);
        RowKind[] kinds = {RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.UPDATE_AFTER, RowKind.DELETE};
        Double[] doubles = {0.0, -0.0, Double.NaN, null};
        List<Row> rows = new ArrayList<>();
        for (int i = 0; i < ROWS; i++) {
            RowKind kind = kinds[random.nextInt(kinds.length)];
            boolean keyOnly = kind == RowKind.DELETE && random.nextBoolean();
            Integer value = keyOnly || random.nextInt(5) == 0 ? null : random.nextInt(2);
            Double number = keyOnly ? null : doubles[random.nextInt(doubles.length)];
            rows.add(form.apply(Row.ofKind(kind, random.nextInt(4), "part " + random.nextInt(2), value, number)));
        }
        return rows;
    }
}
