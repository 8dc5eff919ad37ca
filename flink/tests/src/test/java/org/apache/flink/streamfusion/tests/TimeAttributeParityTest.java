package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;

import org.junit.jupiter.api.Test;

import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** Row-time and processing-time attributes on their way through Calc, casts, unions and exchanges. */
@RequiresNative
class TimeAttributeParityTest {
    private static final String BY_ROW_TIME =
            "k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND";

    @Test
    void aRowTimeAttributeIsATimestampToExpressions() throws Exception {
        Parity.of("SELECT k, CAST(ts AS TIMESTAMP(3)) AS t, EXTRACT(SECOND FROM ts) AS s, ts + INTERVAL '1' SECOND AS later,"
                        + " TIMESTAMPDIFF(MINUTE, TIMESTAMP '2024-02-28 20:00:00', ts) AS d FROM t"
                        + " WHERE ts > TIMESTAMP '2024-02-28 20:00:05' AND v > 20")
                .input("t", BY_ROW_TIME, rows(300))
                .batchSizes(1, 2, 7, 4096)
                .expectNative("WatermarkAssigner", "Calc")
                .expectHosted()
                .run();
    }

    @Test
    void aRowTimeAttributeThatWasCastIsAnOrdinaryColumn() throws Exception {
        Parity.of("SELECT k, MAX(CAST(ts AS TIMESTAMP(3))) AS m, MIN(ts) AS n FROM t GROUP BY k")
                .input("t", BY_ROW_TIME, rows(300))
                .run();
    }

    @Test
    void aUnionKeepsTheAttributeAndTakesTheLeastWatermark() throws Exception {
        Parity.of("SELECT k, v, t FROM (SELECT k, v, CAST(ts AS TIMESTAMP(3)) AS t, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS rn"
                        + " FROM (SELECT k, v, ts FROM t WHERE v > 10 UNION ALL SELECT k, v, ts FROM u)) WHERE rn = 1")
                .input("t", BY_ROW_TIME, rows(150))
                .input("u", BY_ROW_TIME.replace("'5'", "'50'"), rows(200))
                .finalTable()
                .run();
    }

    @Test
    void aProcessingTimeAttributeCostsNoCallIntoTheJvm() throws Exception {
        Parity.of("SELECT k, v FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt) AS rn FROM t) WHERE rn = 1")
                .input("t", "k STRING, v INT, ts TIMESTAMP(3), pt AS PROCTIME()", rows(300))
                .expectNative("Calc", "Exchange", "Deduplicate", "Calc")
                .expectHosted()
                .run();
    }

    private static List<Row> rows(int count) {
        Random random = new Random(3);
        List<Row> rows = new ArrayList<>();
        LocalDateTime time = LocalDateTime.of(2024, 2, 28, 20, 0);
        for (int i = 0; i < count; i++) {
            // no two rows have one time, so that the order of two inputs makes no difference
            time = time.plusNanos(1_000_000L * (1 + random.nextInt(4_000)));
            rows.add(Row.of("k" + random.nextInt(5), random.nextInt(100), random.nextInt(5) == 0 ? time.minusSeconds(7) : time));
        }
        return rows;
    }
}
