package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.Duration;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** Aggregates over session windows: what goes out per key, row by row. */
@RequiresNative
class SessionWindowParityTest {
    private static final String COLUMNS = "k STRING, v BIGINT, d DOUBLE, n DECIMAL(10, 2), b BOOLEAN, %s";
    private static final String LOCAL_TIME = "ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL %s";
    private static final String INSTANT = "ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL %s";
    private static final String SINK =
            "k STRING, %s, w_start TIMESTAMP(3), w_end TIMESTAMP(3), PRIMARY KEY (k) NOT ENFORCED";
    private static final LocalDateTime EPOCH = LocalDateTime.of(1970, 1, 1, 0, 0);
    private static final LocalDateTime NEW_YEAR = LocalDateTime.of(2013, 1, 1, 0, 0);
    private static final int ROWS = 400;

    @Test
    void distinctValuesOfSessionsThatBecomeOne() throws Exception {
        perKey("'5' SECOND", "c BIGINT, s BIGINT, f BIGINT, lo BIGINT",
                        "COUNT(DISTINCT d), SUM(DISTINCT v), COUNT(DISTINCT v) FILTER (WHERE b), MIN(DISTINCT v)")
                .batchSizes(1, 7, 4096)
                .run();
    }

    @Test
    void filters() throws Exception {
        perKey("'5' SECOND", "c BIGINT, s DOUBLE, hi STRING",
                        "COUNT(*) FILTER (WHERE b), SUM(d) FILTER (WHERE v > 0), MAX(k) FILTER (WHERE NOT b)")
                .run();
    }

    @Test
    void keysAlone() throws Exception {
        Parity.of("INSERT INTO windows SELECT k, window_start, window_end FROM " + sessions("PARTITION BY k,", 4)
                        + " GROUP BY k, window_start, window_end")
                .input("t", columns(LOCAL_TIME, "'5' SECOND"), rows(NEW_YEAR, false))
                .sink("windows", "k STRING, w_start TIMESTAMP(3), w_end TIMESTAMP(3), PRIMARY KEY (k) NOT ENFORCED")
                .perKey()
                .run();
    }

    @Test
    void sessionsOfAllRowsTogether() throws Exception {
        Parity.of("SELECT window_start, window_end, window_time, COUNT(*), SUM(v) FROM " + sessions("", 2)
                        + " GROUP BY window_start, window_end, window_time")
                .input("t", columns(LOCAL_TIME, "'1' SECOND"), sparse(rows(NEW_YEAR, true)))
                .batchSizes(1, 2, 7, 4096)
                .run();
    }

    @Test
    void aKeyMayBeNull() throws Exception {
        Parity.of("SELECT k, COUNT(*), SUM(v), window_start, window_end FROM " + sessions("PARTITION BY k,", 4)
                        + " GROUP BY k, window_start, window_end")
                .input("t", columns(LOCAL_TIME, "'5' SECOND"), rows(NEW_YEAR, true))
                .states(7, KeptState.HEAP, KeptState.ROCKSDB_WITHOUT_CACHE)
                .finalTable()
                .run();
    }

    @Test
    void keysOfSeveralColumns() throws Exception {
        Parity.of("SELECT k, b, COUNT(*), MAX(d), window_start, window_end FROM " + sessions("PARTITION BY (k, b),", 6)
                        + " GROUP BY k, b, window_start, window_end")
                .input("t", columns(LOCAL_TIME, "'5' SECOND"), rows(EPOCH, true))
                .finalTable()
                .run();
    }

    /** Windows are those of the partition; what is grouped by besides makes groups inside of them. */
    @Test
    void groupsInsideOfSessions() throws Exception {
        Parity.of("SELECT k, b, COUNT(*), SUM(v), window_start, window_end FROM " + sessions("PARTITION BY k,", 4)
                        + " GROUP BY k, b, window_start, window_end")
                .input("t", columns(LOCAL_TIME, "'5' SECOND"), rows(NEW_YEAR, false))
                .expectNative("WatermarkAssigner", "Calc", "Exchange", "WindowTableFunction", "Calc", "Exchange", "GroupAggregate", "Calc")
                .finalTable()
                .run();
    }

    @ParameterizedTest
    @ValueSource(strings = {"UTC", "Asia/Shanghai", "Asia/Kolkata", "America/Los_Angeles", "Pacific/Apia"})
    void instantsInTheTimeOfAZone(String zone) throws Exception {
        for (LocalDateTime start : changes(zone)) {
            List<Row> rows = rows(start, false);
            rows.replaceAll(row -> {
                LocalDateTime time = row.getFieldAs(5);
                // from an hour before to an hour behind the change
                long seconds = Duration.between(start, time).toSeconds() * 60 - 3600;
                return withTime(row, start.toInstant(ZoneOffset.UTC).plusSeconds(seconds));
            });
            Parity.of("INSERT INTO windows SELECT k, COUNT(*), window_start, window_end FROM "
                            + sessions("PARTITION BY k,", 240) + " GROUP BY k, window_start, window_end")
                    .input("t", columns(INSTANT, "'2' MINUTE"), rows)
                    .sink("windows", SINK.formatted("c BIGINT"))
                    .set("table.local-time-zone", zone)
                    .perKey()
                    .run();
        }
    }

    @Test
    void inParallel() throws Exception {
        perKey("'1' HOUR", "c BIGINT, s BIGINT", "COUNT(*), SUM(v)").parallelism(2).run();
    }

    private static Parity perKey(String delay, String results, String calls) {
        return Parity.of("INSERT INTO windows SELECT k, " + calls + ", window_start, window_end FROM "
                        + sessions("PARTITION BY k,", 4) + " GROUP BY k, window_start, window_end")
                .input("t", columns(LOCAL_TIME, delay), rows(NEW_YEAR, false))
                .sink("windows", SINK.formatted(results))
                .perKey();
    }

    private static String sessions(String partition, int gap) {
        return "TABLE(SESSION(TABLE t " + (partition.isEmpty() ? ", " : partition) + " DESCRIPTOR(ts), INTERVAL '" + gap
                + "' SECOND(5)))";
    }

    private static String columns(String time, String delay) {
        return COLUMNS.formatted(time.formatted(delay));
    }

    /** Instants, as if they were UTC, at which the zone changes its offset; any if it never does. */
    private static List<LocalDateTime> changes(String zone) {
        return switch (zone) {
            case "America/Los_Angeles" -> List.of(
                    LocalDateTime.of(2024, 3, 10, 10, 0), LocalDateTime.of(2024, 11, 3, 9, 0));
            case "Pacific/Apia" -> List.of(LocalDateTime.of(2011, 12, 30, 10, 0));
            default -> List.of(NEW_YEAR);
        };
    }

    private static Row withTime(Row row, Object time) {
        Row copy = Row.copy(row);
        copy.setField(5, time);
        return copy;
    }

    /** Those with gaps that are long enough for sessions of all rows. */
    private static List<Row> sparse(List<Row> rows) {
        List<Row> sparse = new ArrayList<>();
        for (Row row : rows) {
            LocalDateTime time = row.getFieldAs(5);
            if (time.getSecond() % 10 < 5) {
                sparse.add(row);
            }
        }
        return sparse;
    }

    /** Few keys, whose rows come in bursts, out of order by up to 8 seconds. */
    static List<Row> rows(LocalDateTime start, boolean nullKeys) {
        Random random = new Random(5);
        List<Row> rows = new ArrayList<>();
        for (int i = 0; i < ROWS; i++) {
            String key = nullKeys && random.nextInt(6) == 0 ? null : "key " + random.nextInt(7);
            Long value = random.nextInt(5) == 0 ? null : (long) random.nextInt(5) - 1;
            Double real = random.nextInt(7) == 0 ? null : random.nextInt(40) / 8.0;
            int back = random.nextInt(4) == 0 ? random.nextInt(8) : 0;
            LocalDateTime time = start.plusSeconds(Math.max(0, i / 3 - back));
            rows.add(Row.of(key, value, real, new java.math.BigDecimal(random.nextInt(900)).movePointLeft(2),
                    random.nextInt(4) == 0 ? null : random.nextBoolean(), time));
        }
        return rows;
    }
}
