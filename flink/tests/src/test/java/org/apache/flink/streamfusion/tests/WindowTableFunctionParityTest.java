package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** Rows with their windows, without anything that aggregates them. */
@RequiresNative
class WindowTableFunctionParityTest {
    private static final int ROWS = 200;
    private static final String LOCAL = "k INT, v STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND";
    private static final String INSTANT = "k INT, v STRING, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND";

    private static Parity windows(String columns, String function, List<Row> rows) {
        // a sink takes one time attribute
        String type = columns.equals(LOCAL) ? "TIMESTAMP(3)" : "TIMESTAMP_LTZ(3)";
        return Parity.of("SELECT k, v, CAST(ts AS %1$s) AS ts, window_start, window_end, CAST(window_time AS %1$s) AS t FROM TABLE(%2$s)"
                        .formatted(type, function))
                .input("t", columns, rows)
                .batchSizes(1, 2, 7, 4096);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTE)",
                "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '-17' MINUTE)",
                "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)",
                "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '7' MINUTE, INTERVAL '31' MINUTE, INTERVAL '2' MINUTE)",
                "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '1' HOUR)",
                "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '6' HOUR, INTERVAL '1' DAY, INTERVAL '1' HOUR)"
            })
    void ofLocalTime(String function) throws Exception {
        windows(LOCAL, function, rows(LocalDateTime.of(2024, 2, 28, 20, 0)))
                .expectNative("WatermarkAssigner", "WindowTableFunction", "Calc")
                .run();
    }

    @ParameterizedTest
    @CsvSource({
        "UTC, 2024-03-10T08:00:00Z",
        "Asia/Shanghai, 2024-03-10T08:00:00Z",
        "Asia/Kolkata, 2024-03-10T08:00:00Z",
        "America/Los_Angeles, 2024-03-10T08:00:00Z",
        "America/Los_Angeles, 2024-11-03T07:00:00Z",
        "Pacific/Apia, 2011-12-30T08:00:00Z"
    })
    void ofInstantsInAZone(String zone, String start) throws Exception {
        List<Row> rows = instants(LocalDateTime.ofInstant(Instant.parse(start), ZoneOffset.UTC));
        for (String function :
                List.of(
                        "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)",
                        "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '30' MINUTE, INTERVAL '1' DAY)",
                        "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '45' MINUTE, INTERVAL '3' HOUR, INTERVAL '15' MINUTE)")) {
            windows(INSTANT, function, rows).set("table.local-time-zone", zone).run();
        }
    }

    @Test
    void beforeTheEpoch() throws Exception {
        windows(LOCAL, "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '7' SECOND, INTERVAL '1' MINUTE)", rows(LocalDateTime.of(1901, 1, 1, 0, 0)))
                .run();
    }

    @Test
    void inFrontOfAnAggregateThatIsNotOverWindows() throws Exception {
        Parity.of("SELECT window_end, k, COUNT(*) AS n FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '10' MINUTE))"
                        + " GROUP BY window_end, k")
                .input("t", LOCAL, rows(LocalDateTime.of(2024, 2, 28, 20, 0)))
                .run();
    }

    @Test
    void sessionsOfKeys() throws Exception {
        String session = "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' MINUTE)";
        windows(LOCAL, session, rows(LocalDateTime.of(2024, 2, 28, 20, 0)))
                .upsertBy("k")
                .perKey()
                .expectNative("WatermarkAssigner", "Exchange", "WindowTableFunction", "Calc")
                .batchSizes(1, 7)
                .run();
    }

    @Test
    void sessionsOfAllRowsInTheTimeOfAZone() throws Exception {
        List<Row> rows = instants(LocalDateTime.of(2024, 11, 3, 6, 0));
        windows(INSTANT, "SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '3' MINUTE)", rows)
                .set("table.local-time-zone", "America/Los_Angeles")
                .expectNative("WatermarkAssigner", "Exchange", "WindowTableFunction", "Calc")
                .batchSizes(7)
                .run();
    }

    @Test
    void sessionsOfRowsThatAreTakenBack() throws Exception {
        List<Row> rows = new ArrayList<>();
        for (Row row : rows(LocalDateTime.of(1969, 12, 31, 20, 0))) {
            rows.add(row);
            if ((int) row.getField(0) == 3) {
                Row back = Row.copy(row);
                back.setKind(RowKind.DELETE);
                rows.add(back);
            }
        }
        Parity.of("SELECT k, v, CAST(ts AS TIMESTAMP(3)) AS ts, window_start, window_end FROM TABLE("
                        + "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' MINUTE))")
                .changelog("t", LOCAL, "+I,-D", rows)
                .upsertBy("k")
                .perKey()
                .expectNative("WatermarkAssigner", "Exchange", "WindowTableFunction", "Calc")
                .batchSizes(7)
                .run();
    }

    /** The same as instants. */
    private static List<Row> instants(LocalDateTime start) {
        List<Row> rows = rows(start);
        rows.replaceAll(row -> Row.of(row.getField(0), row.getField(1), ((LocalDateTime) row.getField(2)).toInstant(ZoneOffset.UTC)));
        return rows;
    }

    /** Times go back and forth, stand still and jump. */
    private static List<Row> rows(LocalDateTime start) {
        Random random = new Random(5);
        List<Row> rows = new ArrayList<>();
        LocalDateTime time = start;
        for (int i = 0; i < ROWS; i++) {
            time = time.plusNanos(1_000_000L * (random.nextInt(30) == 0 ? 3_600_000 : random.nextInt(300_000) - 100_000));
            LocalDateTime seen = random.nextInt(4) == 0 ? time.withSecond(0).withNano(0) : time;
            rows.add(Row.of(random.nextInt(5), random.nextInt(9) == 0 ? null : "v" + i, seen));
        }
        return rows;
    }
}
