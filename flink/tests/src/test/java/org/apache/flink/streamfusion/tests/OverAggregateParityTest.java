package org.apache.flink.streamfusion.tests;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.Duration;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** Aggregates over the rows before a row: frames of rows and of time, by row time and by processing time, with late rows. */
@RequiresNative
class OverAggregateParityTest {
    private static final String BY_ROW_TIME =
            "k STRING, v INT, s STRING, d DOUBLE, ts TIMESTAMP(3), pt AS PROCTIME(),"
                    + " WATERMARK FOR ts AS ts - INTERVAL '3' SECOND";
    private static final int ROWS = 250;
    private static final String RANGE_OF_4_SECONDS =
            "PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '4' SECOND PRECEDING AND CURRENT ROW";
    private static final String ALL = "COUNT(*) OVER w AS n, COUNT(v) OVER w AS c, SUM(v) OVER w AS su, AVG(v) OVER w AS av,"
            + " MIN(v) OVER w AS mi, MAX(s) OVER w AS ma, FIRST_VALUE(v) OVER w AS fi, LAST_VALUE(s) OVER w AS la,"
            + " COUNT(DISTINCT v) OVER w AS cd, SUM(DISTINCT v) OVER w AS sd";

    private static Parity over(String calls, String window, List<Row> rows) {
        return Parity.of("SELECT k, v, ts, " + calls + " FROM t WINDOW w AS (" + window + ")")
                .input("t", BY_ROW_TIME, rows);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                "ROWS BETWEEN 0 PRECEDING AND CURRENT ROW",
                "ROWS BETWEEN 3 PRECEDING AND CURRENT ROW",
                "RANGE BETWEEN INTERVAL '0' SECOND PRECEDING AND CURRENT ROW",
                "RANGE BETWEEN INTERVAL '7' SECOND PRECEDING AND CURRENT ROW"
            })
    void frames(String frame) throws Exception {
        over(ALL, "PARTITION BY k ORDER BY ts " + frame, rows())
                .batchSizes(1, 2, 7, 4096)
                .expectNative("Calc", "WatermarkAssigner", "Exchange", "OverAggregate", "Calc")
                .run();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "ROWS BETWEEN UNBOUNDED PRECEDING",
                "ROWS BETWEEN 2 PRECEDING",
                "RANGE BETWEEN INTERVAL '2' SECOND PRECEDING"
            })
    void ofAllRows(String frame) throws Exception {
        over("SUM(v) OVER w AS su, MAX(v) OVER w AS ma", "ORDER BY ts " + frame + " AND CURRENT ROW", rows())
                .batchSizes(1, 7, 4096)
                .run();
    }

    /** Rows of before 1970 are late in a bounded window, whatever the watermark. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "ROWS BETWEEN UNBOUNDED PRECEDING",
                "ROWS BETWEEN 2 PRECEDING",
                "RANGE BETWEEN INTERVAL '9' SECOND PRECEDING"
            })
    void around1970(String frame) throws Exception {
        List<Row> rows = rows();
        LocalDateTime first = (LocalDateTime) rows.get(0).getField(4);
        LocalDateTime epoch = LocalDateTime.of(1969, 12, 31, 23, 59, 20);
        rows.replaceAll(row -> {
            LocalDateTime time = (LocalDateTime) row.getField(4);
            LocalDateTime moved = epoch.plus(Duration.between(first, time));
            return Row.of(row.getField(0), row.getField(1), row.getField(2), row.getField(3), moved);
        });
        over("SUM(v) OVER w AS su", "PARTITION BY k ORDER BY ts " + frame + " AND CURRENT ROW", rows).run();
    }

    @ParameterizedTest
    @CsvSource({"hashmap", "rocksdb"})
    void doublesInTheOrderInWhichTheyComeAndGo(String backend) throws Exception {
        over("SUM(d) OVER w AS su", "PARTITION BY k ORDER BY ts ROWS BETWEEN 4 PRECEDING AND CURRENT ROW", rows())
                .set("state.backend.type", backend)
                .batchSizes(1, 7, 4096)
                .run();
    }

    @Test
    void doublesOfARangeComeAndGoInTheOrderOfTheDatabase() throws Exception {
        over("AVG(d) OVER w AS av", RANGE_OF_4_SECONDS, rows())
                .set("state.backend.type", "rocksdb")
                .batchSizes(1, 7, 4096)
                .run();
    }

    @Test
    void doublesOfARangeStayWithTheHashMap() throws Exception {
        over("SUM(d) OVER w AS su", RANGE_OF_4_SECONDS, rows())
                .set("state.backend.type", "hashmap")
                .expectStock("OverAggregate", "heap state backend")
                .expectStock("Exchange", "")
                .run();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "ROWS BETWEEN UNBOUNDED PRECEDING",
                "RANGE BETWEEN UNBOUNDED PRECEDING",
                "ROWS BETWEEN 3 PRECEDING"
            })
    void byProcessingTime(String frame) throws Exception {
        over(ALL, "PARTITION BY k ORDER BY pt " + frame + " AND CURRENT ROW", rows())
                .batchSizes(1, 2, 7, 4096)
                .run();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "ts ROWS BETWEEN UNBOUNDED PRECEDING",
                "ts ROWS BETWEEN 3 PRECEDING",
                "pt ROWS BETWEEN UNBOUNDED PRECEDING",
                "pt ROWS BETWEEN 3 PRECEDING"
            })
    void withARetention(String frame) throws Exception {
        over("SUM(v) OVER w AS su, MAX(v) OVER w AS ma", "PARTITION BY k ORDER BY " + frame + " AND CURRENT ROW", rows())
                .set("table.exec.state.ttl", "1 h")
                .run();
    }

    @Test
    void rowNumbersAndConstants() throws Exception {
        Parity.of("SELECT k, ts, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS rn FROM t")
                .input("t", BY_ROW_TIME, rows())
                .batchSizes(1, 7, 4096)
                .run();
        String constants = "SUM(3) OVER w AS su, MAX('a') OVER w AS ma, COUNT(1) OVER w AS n";
        over(constants, "PARTITION BY k ORDER BY ts", rows()).run();
    }

    @Test
    void instantsInAZone() throws Exception {
        Parity.of("SELECT k, v, ts, SUM(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '5' SECOND PRECEDING"
                        + " AND CURRENT ROW) AS su FROM t")
                .input(
                        "t",
                        "k STRING, v INT, s STRING, d DOUBLE, time0 TIMESTAMP(3), ts AS CAST(time0 AS TIMESTAMP_LTZ(3)),"
                                + " WATERMARK FOR ts AS ts - INTERVAL '1' SECOND",
                        rows())
                .set("table.local-time-zone", "America/Los_Angeles")
                .run();
    }

    @ParameterizedTest
    @ValueSource(strings = {"ts", "pt"})
    void valuesOfRowsBeforeAndRanks(String order) throws Exception {
        String calls = "LAG(v) OVER w AS l1, LAG(s, 2) OVER w AS l2, LAG(COALESCE(s, 'null'), 3, 'none') OVER w AS l3, LAG(d, 0) OVER w AS l0,"
                + " SUM(v) OVER w AS su, RANK() OVER w AS ra, DENSE_RANK() OVER w AS de";
        over(calls, "PARTITION BY k ORDER BY " + order, rows())
                .batchSizes(1, 7, 4096)
                .run();
    }

    @Test
    void inMiniBatches() throws Exception {
        over("SUM(v) OVER w AS su", "PARTITION BY k ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW", rows())
                .set("table.exec.mini-batch.enabled", "true")
                .set("table.exec.mini-batch.size", "5")
                .set("table.exec.mini-batch.allow-latency", "5 s")
                .finalTable()
                .run();
    }

    @Test
    void inParallel() throws Exception {
        over(ALL, "PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '2' SECOND PRECEDING AND CURRENT ROW", rows())
                .parallelism(2)
                .run();
    }

    @Test
    void whatIsNotNativeSaysWhy() throws Exception {
        Parity.of("SELECT k, v, LISTAGG(s) OVER (PARTITION BY k ORDER BY ts) AS p FROM t")
                .input("t", BY_ROW_TIME, rows())
                .expectStock("OverAggregate", "LISTAGG")
                .expectStock("Exchange", "")
                .run();
        // not run: Flink takes the result for NOT NULL, as the default is, and what it makes of a NULL there is not defined
        assertThat(Parity.of("SELECT k, v, LAG(s, 1, 'none') OVER (PARTITION BY k ORDER BY ts) AS p FROM t")
                        .input("t", BY_ROW_TIME, rows())
                        .explain()
                        .stockNodes())
                .anyMatch(node -> node.kind().equals("OverAggregate")
                        && node.reasons().stream().anyMatch(reason -> reason.contains("with a default that may not")));
        Parity.of("SELECT k, v, d, SUM(v) OVER (PARTITION BY k ORDER BY v) AS p FROM t")
                .input("t", BY_ROW_TIME, rows())
                .expectStock("OverAggregate", "another column than a time attribute")
                .expectStock("Exchange", "")
                .run();
    }

    /** With RocksDB rows go out whose values stay, on the heap they do not. */
    @ParameterizedTest
    @ValueSource(strings = {"hashmap", "rocksdb"})
    void inTheOrderOfAColumnThatIsNoTime(String backend) throws Exception {
        String calls = "COUNT(*) OVER w, COUNT(v) OVER w, SUM(v) OVER w, MIN(v) OVER w, MAX(s) OVER w";
        for (String window : new String[] {
            "SELECT k, v, s, " + calls + " FROM t WINDOW w AS (PARTITION BY k ORDER BY s)",
            "SELECT k, v, s, SUM(v) OVER (ORDER BY s) FROM t",
            "SELECT k, v, s, AVG(v) OVER (PARTITION BY k ORDER BY s) FROM t",
            "SELECT k, v, s, RANK() OVER w, DENSE_RANK() OVER w, MIN(v) OVER w FROM t WINDOW w AS (PARTITION BY k ORDER BY s)",
            "SELECT k, v, s, MAX(v) OVER (PARTITION BY k ORDER BY s ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM t"
        }) {
            Parity.of(window)
                    .input("t", "k STRING, v INT, s STRING", narrow())
                    .set("state.backend.type", backend)
                    .batchSizes(1, 7)
                    .run();
        }
        Parity.of("SELECT k, v, s, " + calls
                        + " FROM t WINDOW w AS (PARTITION BY k ORDER BY v ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)")
                .input("t", "k STRING, v INT, s STRING", narrow())
                .set("state.backend.type", backend)
                .expectNative("Exchange", "OverAggregate", "Calc")
                .batchSizes(7)
                .run();
    }

    @ParameterizedTest
    @CsvSource({
        "ORDER BY s, hashmap",
        "ORDER BY s, rocksdb",
        "ORDER BY s ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW, hashmap",
        "ORDER BY s ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW, rocksdb"
    })
    void inTheOrderOfAColumnWhileRowsComeAndGo(String order, String backend) throws Exception {
        Random random = new Random(9);
        List<Row> changes = new ArrayList<>();
        List<Row> live = new ArrayList<>();
        int id = 0;
        for (Row row : narrow()) {
            Row numbered = Row.of(id++, row.getField(0), row.getField(1), row.getField(2));
            changes.add(numbered);
            live.add(numbered);
            if (random.nextInt(3) == 0) {
                Row back = Row.copy(live.remove(random.nextInt(live.size())));
                back.setKind(random.nextBoolean() ? RowKind.DELETE : RowKind.UPDATE_BEFORE);
                changes.add(back);
            }
        }
        Parity.of("SELECT id, k, s, SUM(id) OVER w, MAX(v) OVER w FROM t WINDOW w AS (PARTITION BY k " + order + ")")
                .changelog("t", "id INT NOT NULL, k STRING, v INT, s STRING", "+I,-U,+U,-D", changes)
                .set("state.backend.type", backend)
                .expectNative("Exchange", "OverAggregate", "Calc")
                .batchSizes(1, 7)
                .run();
    }

    /** The first columns of some rows, with few different texts. */
    private static List<Row> narrow() {
        Random random = new Random(3);
        List<Row> narrow = new ArrayList<>();
        for (Row row : rows()) {
            String text = random.nextInt(9) == 0 ? null : "s" + random.nextInt(20);
            narrow.add(Row.of(row.getField(0), row.getField(1), text));
        }
        return narrow;
    }

    /**
     * Times go back and forth, stand still and jump; some rows are late. Rows of one time are of one key: between keys, Flink's order
     * is that of its timers.
     */
    private static List<Row> rows() {
        Random random = new Random(5);
        List<Row> rows = new ArrayList<>();
        LocalDateTime start = LocalDateTime.of(2024, 3, 10, 1, 59, 30);
        int millis = 0;
        String[] keys = {"a", "b", "c", null};
        for (int i = 0; i < ROWS; i++) {
            millis += random.nextInt(30) == 0 ? 60_000 : random.nextInt(900);
            int key = random.nextInt(keys.length);
            int behind = random.nextInt(8) == 0 ? random.nextInt(9_000) : random.nextInt(4_000);
            // the last digit says whose row it is
            int time = Math.max(0, millis - behind) / 100 * 10 * 10 + key;
            rows.add(Row.of(
                    keys[key],
                    random.nextInt(7) == 0 ? null : random.nextInt(20) - 5,
                    random.nextInt(6) == 0 ? null : "s" + random.nextInt(9),
                    random.nextInt(9) == 0 ? null : random.nextInt(1000) / 7.0,
                    start.plusNanos(1_000_000L * time)));
        }
        return rows;
    }
}
