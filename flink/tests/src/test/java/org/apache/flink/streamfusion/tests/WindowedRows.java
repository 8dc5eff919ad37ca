package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;

import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/**
 * Input of parity tests over windows: rows out of order, late ones, equal times and values, gaps, and NULL keys.
 *
 * <p>Watermarks are two seconds behind the rows and go out behind every row that moves them, so that it does not depend on the clock which rows
 * are late.
 */
final class WindowedRows {
    /** What makes a watermark go out with each row that moves it. */
    static final String[] EXACT_WATERMARKS = {"pipeline.auto-watermark-interval", "0"};

    private static final String COLUMNS = "id INT NOT NULL, k INT, v INT, name STRING, ts %s, WATERMARK FOR ts AS ts - INTERVAL %s";

    private WindowedRows() {}

    /** DDL of local time. */
    static String local(String delay) {
        return COLUMNS.formatted("TIMESTAMP(3)", delay);
    }

    /** DDL of instants. */
    static String instants(String delay) {
        return COLUMNS.formatted("TIMESTAMP_LTZ(3)", delay);
    }

    /** Rows over some minutes, with local times. */
    static List<Row> rows(int count, int seed) {
        return rows(count, seed, 300, LocalDateTime.of(2024, 5, 1, 12, 0).toInstant(ZoneOffset.UTC), false);
    }

    /** Rows with instants, on average so many milliseconds apart. */
    static List<Row> instants(int count, int seed, long stepMs, Instant start) {
        return rows(count, seed, stepMs, start, true);
    }

    private static List<Row> rows(int count, int seed, long stepMs, Instant start, boolean instants) {
        Random random = new Random(seed);
        List<Row> rows = new ArrayList<>();
        long now = start.toEpochMilli();
        for (int id = 0; id < count; id++) {
            // often the same time, now and then a gap of several windows
            now += switch (random.nextInt(12)) {
                case 0, 1, 2 -> 0;
                case 3 -> random.nextInt(60) == 0 ? 120 * stepMs : stepMs;
                default -> random.nextInt((int) (2 * stepMs));
            };
            // out of order, sometimes by more than watermarks wait for
            long late = random.nextInt(4) == 0 ? random.nextInt((int) (random.nextInt(5) == 0 ? 60 * stepMs : 5 * stepMs)) : 0;
            Instant time = Instant.ofEpochMilli(now - late);
            rows.add(Row.of(
                    id,
                    random.nextInt(9) == 0 ? null : random.nextInt(7),
                    random.nextInt(8) == 0 ? null : random.nextInt(6),
                    random.nextInt(8) == 0 ? null : "n" + random.nextInt(4),
                    instants ? time : LocalDateTime.ofInstant(time, ZoneOffset.UTC)));
        }
        return rows;
    }
}
