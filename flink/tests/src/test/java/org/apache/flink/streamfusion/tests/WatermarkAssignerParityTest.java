package org.apache.flink.streamfusion.tests;

import org.apache.flink.table.annotation.DataTypeHint;
import org.apache.flink.table.functions.ScalarFunction;
import org.apache.flink.types.Row;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** Watermarks of rows: which one each row sees, behind which rows they go, and what the expressions make of rows. */
@RequiresNative
class WatermarkAssignerParityTest {
    private static final int ROWS = 300;

    /** What a watermark is made of. Public for Flink. */
    public static final class Earlier extends ScalarFunction {
        private static final long serialVersionUID = 1L;

        @DataTypeHint("TIMESTAMP(3)")
        public LocalDateTime eval(@DataTypeHint("TIMESTAMP(3)") LocalDateTime time, Integer seconds) {
            return seconds == null || seconds % 7 == 0 ? null : time.minusSeconds(seconds % 5);
        }
    }

    /** Each row with the watermark that the operator behind the assigner has seen before it. */
    private static Parity watermarks(String columns, List<Row> rows) {
        return Parity.of("SELECT v, ts, CURRENT_WATERMARK(ts) AS w FROM t")
                .input("t", columns, rows)
                .expectStock("Calc", "CURRENT_WATERMARK")
                .batchSizes(1, 2, 7, 4096);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "ts",
                "ts - INTERVAL '5' SECOND",
                "ts - INTERVAL '0.250' SECOND",
                "ts - INTERVAL '1' MONTH",
                "ts + INTERVAL '3' MINUTE",
                "CASE WHEN v > 50 THEN ts WHEN v < 20 THEN ts - INTERVAL '9' SECOND END",
                "CAST(DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm:ss') AS TIMESTAMP(3))",
                "CAST(NULL AS TIMESTAMP(3))",
                "COALESCE(IF(MOD(v, 3) = 0, CAST(NULL AS TIMESTAMP(3)), ts), ts - INTERVAL '1' HOUR)",
                "CAST(FLOOR(ts TO MINUTE) AS TIMESTAMP(3))"
            })
    void expressions(String watermark) throws Exception {
        watermarks("v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS " + watermark, rows()).run();
    }

    @ParameterizedTest
    @ValueSource(strings = {"30 s", "5 min", "1 h"})
    void behindTheRowThatExceedsTheInterval(String interval) throws Exception {
        watermarks("v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND", rows())
                .set("pipeline.auto-watermark-interval", interval)
                .run();
    }

    @Test
    void ofAnInstantAndOfAComputedColumn() throws Exception {
        watermarks(
                        "v INT, seen TIMESTAMP(3), ts AS TO_TIMESTAMP_LTZ(1700000000000 + 977 * v, 3),"
                                + " WATERMARK FOR ts AS ts - INTERVAL '1' SECOND",
                        rows())
                .set("table.local-time-zone", "America/Los_Angeles")
                .run();
    }

    @Test
    void aFunctionOfTheUserRunsInTheJvm() throws Exception {
        watermarks("v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS earlier(ts, v)", rows())
                .setUp(environment -> environment.createTemporarySystemFunction("earlier", Earlier.class))
                .expectHosted("earlier")
                .run();
    }

    @Test
    void beforeTheEpochThereAreNone() throws Exception {
        List<Row> rows = rows();
        rows.replaceAll(row -> Row.of(row.getField(0), ((LocalDateTime) row.getField(1)).minusYears(60)));
        watermarks("v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts", rows).run();
    }

    @Test
    void inputsOfAUnionGoTogether() throws Exception {
        Parity.of("SELECT v, COUNT(*) AS n FROM (SELECT v, ts FROM t UNION ALL SELECT v, ts FROM u) GROUP BY v")
                .input("t", "v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts", rows())
                .input("u", "v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE", rows())
                .finalTable()
                .run();
    }

    @Test
    void aRowWithoutRowTimeFails() throws Exception {
        List<Row> rows = rows();
        rows.add(Row.of(1, null));
        watermarks("v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts", rows).runFailing();
    }

    @Test
    void aWatermarkThatCannotBeComputedFails() throws Exception {
        List<Row> rows = rows();
        rows.add(Row.of(50, LocalDateTime.of(2024, 3, 1, 0, 0)));
        watermarks(
                        "v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS IF(100 / (v - 50) > 0, ts, ts - INTERVAL '1' SECOND)",
                        rows)
                .runFailing();
    }

    /** Times go back and forth, stand still and jump. */
    private static List<Row> rows() {
        Random random = new Random(11);
        List<Row> rows = new ArrayList<>();
        LocalDateTime time = LocalDateTime.of(2024, 2, 28, 23, 50);
        for (int i = 0; i < ROWS; i++) {
            time = time.plusNanos(1_000_000L * (random.nextInt(20) == 0 ? 3_600_000 : random.nextInt(40_000) - 15_000));
            rows.add(Row.of(random.nextInt(100), random.nextInt(4) == 0 ? time.withNano(0) : time));
        }
        return rows;
    }
}
