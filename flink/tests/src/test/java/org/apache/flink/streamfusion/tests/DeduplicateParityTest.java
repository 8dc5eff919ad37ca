package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** The first and the last row per key, by processing time and by row time, row by row. */
@RequiresNative
class DeduplicateParityTest {
    private static final String BY_ARRIVAL = "k STRING, v INT, d DOUBLE, pt AS PROCTIME()";
    private static final String BY_ROW_TIME =
            "k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND";
    private static final int ROWS = 200;

    @ParameterizedTest
    @CsvSource({"ASC, hashmap", "DESC, hashmap", "ASC, rocksdb", "DESC, rocksdb"})
    void byProcessingTime(String direction, String backend) throws Exception {
        byArrival(direction)
                .set("state.backend.type", backend)
                .batchSizes(1, 2, 7, 4096)
                .expectNative("Calc", "Exchange", "Deduplicate", "Calc")
                .run();
    }

    @Test
    void equalRowsGoOutWithATimeToLive() throws Exception {
        byArrival("DESC").set("table.exec.state.ttl", "1 h").run();
    }

    @ParameterizedTest
    @ValueSource(strings = {"ASC", "DESC"})
    void upsertSinkGetsNoUpdateBefore(String direction) throws Exception {
        for (String sensitive : List.of("true", "false")) {
            byArrival(direction, keyed(rows(false)))
                    .set("table.exec.deduplicate.insert-update-after-sensitive-enabled", sensitive)
                    .upsertBy("k")
                    .run();
        }
    }

    @Test
    void inParallel() throws Exception {
        byArrival("DESC").parallelism(2).run();
    }

    @Test
    void lastByRowTime() throws Exception {
        byRowTime("DESC").batchSizes(1, 2, 7, 4096).expectNative("WatermarkAssigner", "Exchange", "Deduplicate").run();
    }

    @Test
    void lastByRowTimeWithATimeToLive() throws Exception {
        byRowTime("DESC").set("table.exec.state.ttl", "1 h").run();
    }

    @ParameterizedTest
    @ValueSource(strings = {"true", "false"})
    void lastByRowTimeIntoAnUpsertSink(String sensitive) throws Exception {
        byRowTime("DESC", "v", keyed(rows(true)))
                .set("table.exec.deduplicate.insert-update-after-sensitive-enabled", sensitive)
                .upsertBy("k")
                .run();
    }

    @ParameterizedTest
    @ValueSource(strings = {"hashmap", "rocksdb"})
    void firstByRowTimeGoesOutWhenItIsDue(String backend) throws Exception {
        byRowTime("ASC", "v + 1 AS w", keyed(rows(true)))
                .set("state.backend.type", backend)
                .set("table.exec.state.ttl", "1 h")
                .upsertBy("k")
                .perKey()
                .batchSizes(1, 2, 7, 4096)
                .expectNative("WatermarkAssigner", "Exchange", "Deduplicate", "Calc")
                .run();
    }

    @ParameterizedTest
    @CsvSource({"ASC, 1", "ASC, 7", "DESC, 1", "DESC, 2", "DESC, 7", "DESC, 4096"})
    void bundlesByProcessingTime(String direction, int size) throws Exception {
        bundles(size, direction, "pt", BY_ARRIVAL, rows(false))
                .batchSizes(1, 2, 7, 4096)
                .expectNative("MiniBatchAssigner", "Calc", "Exchange", "Deduplicate", "Calc")
                .run();
    }

    @ParameterizedTest
    @ValueSource(strings = {"hashmap", "rocksdb"})
    void equalRowsInBundlesGoOutWhereTheBackendRemembersTheUpdate(String backend) throws Exception {
        bundles(3, "DESC", "pt", BY_ARRIVAL, rows(false)).set("state.backend.type", backend).run();
    }

    @ParameterizedTest
    @ValueSource(strings = {"ASC", "DESC"})
    void bundlesWithATimeToLive(String direction) throws Exception {
        bundles(7, direction, "pt", BY_ARRIVAL, rows(false)).set("table.exec.state.ttl", "1 h").run();
    }

    @ParameterizedTest
    @CsvSource({"true, true", "true, false", "false, true", "false, false"})
    void bundlesIntoAnUpsertSink(String sensitive, String rowTime) throws Exception {
        boolean time = Boolean.parseBoolean(rowTime);
        String query = ranked("DESC", time ? "ts" : "pt");
        Parity parity = Parity.of(query)
                .input("t", time ? BY_ROW_TIME : BY_ARRIVAL, keyed(rows(time)))
                .set("table.exec.deduplicate.insert-update-after-sensitive-enabled", sensitive)
                .upsertBy("k");
        inBundles(7, parity).perKey().run();
    }

    @ParameterizedTest
    @CsvSource({"1, true", "2, true", "7, true", "4096, true", "1, false", "2, false", "7, false", "4096, false"})
    void bundlesByRowTime(int size, String compact) throws Exception {
        bundles(size, "DESC", "ts", BY_ROW_TIME, rows(true))
                .set("table.exec.deduplicate.mini-batch.compact-changes-enabled", compact)
                .batchSizes(1, 2, 7, 4096)
                .expectNative("WatermarkAssigner", "MiniBatchAssigner", "Exchange", "Deduplicate")
                .run();
    }

    @Test
    void bundlesInParallel() throws Exception {
        bundles(7, "DESC", "pt", BY_ARRIVAL, rows(false)).parallelism(2).run();
    }

    @Test
    void rowsOfEveryType() throws Exception {
        List<EdgeValues.Column> columns = EdgeValues.allTypes();
        List<Row> rows = EdgeValues.apart(columns, column -> {
            List<Row> ofType = EdgeValues.numbered(EdgeValues.rows(List.of(column), 60, 3));
            ofType.replaceAll(row -> Row.of((int) row.getField(0) % 4, row.getField(1)));
            return ofType;
        });
        Parity.of("SELECT k, of_type, " + EdgeValues.names(columns, "d")
                        + " FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt DESC) AS rn FROM t) AS d WHERE rn = 1")
                .input("t", "k INT, " + EdgeValues.apartDdl(columns) + ", pt AS PROCTIME()", rows)
                .run();
    }

    private static Parity byArrival(String direction) {
        return byArrival(direction, rows(false));
    }

    private static Parity byArrival(String direction, List<Row> rows) {
        return Parity.of("SELECT k, v, d FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt " + direction
                        + ") AS rn FROM t) WHERE rn = 1")
                .input("t", BY_ARRIVAL, rows);
    }

    private static Parity byRowTime(String direction) {
        return byRowTime(direction, "v", rows(true));
    }

    private static Parity byRowTime(String direction, String value, List<Row> rows) {
        return Parity.of("SELECT k, " + value + ", ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts " + direction
                        + ") AS rn FROM t) WHERE rn = 1")
                .input("t", BY_ROW_TIME, rows);
    }

    private static String ranked(String direction, String time) {
        return "SELECT k, v, %1$s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY %2$s %3$s) AS rn FROM t) WHERE rn = 1"
                .formatted(time.equals("pt") ? "d" : time, time, direction);
    }

    /** Into a sink that takes -U and has a key, so that keys can be told apart. */
    private static Parity bundles(int size, String direction, String time, String columns, List<Row> rows) {
        String last = time.equals("pt") ? "d DOUBLE" : "ts TIMESTAMP(3)";
        Parity parity = Parity.of("INSERT INTO latest " + ranked(direction, time))
                .input("t", columns, keyed(rows))
                .sink("latest", "k STRING, v INT, " + last + ", PRIMARY KEY (k) NOT ENFORCED")
                .perKey();
        return inBundles(size, parity);
    }

    /** No marker comes while the job runs: bundles end by their size, by watermarks of the source and with the input. */
    private static Parity inBundles(int size, Parity parity) {
        return parity.set("table.exec.mini-batch.enabled", "true")
                .set("table.exec.mini-batch.size", Integer.toString(size))
                .set("table.exec.mini-batch.allow-latency", "1 h");
    }

    /** Without the rows whose key is NULL, which no primary key may be. */
    private static List<Row> keyed(List<Row> rows) {
        return rows.stream().filter(row -> row.getField(0) != null).toList();
    }

    /** Few keys, one of them NULL, and few values, so that equal rows follow each other; times go back and forth. */
    private static List<Row> rows(boolean times) {
        Random random = new Random(9);
        List<Row> rows = new ArrayList<>();
        double[] doubles = {0.0, -0.0, Double.NaN, 1.5};
        for (int i = 0; i < ROWS; i++) {
            String key = random.nextInt(6) == 0 ? null : "key " + random.nextInt(5);
            Integer value = random.nextInt(5) == 0 ? null : random.nextInt(2);
            Object last = times
                    ? LocalDateTime.of(2013, 1, 1, 0, 0).plusSeconds(i / 4 + random.nextInt(4))
                    : (Object) doubles[random.nextInt(doubles.length)];
            rows.add(Row.of(key, value, last));
        }
        return rows;
    }
}
