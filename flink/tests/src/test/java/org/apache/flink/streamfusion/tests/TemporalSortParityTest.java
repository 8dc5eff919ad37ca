package org.apache.flink.streamfusion.tests;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.types.Row;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** ORDER BY a time attribute, with further columns, over rows out of order and late ones. */
@RequiresNative
class TemporalSortParityTest {
    private static final String COLUMNS =
            "v INT, s STRING, d DOUBLE, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND";
    private static final int ROWS = 300;

    private static Parity sorted(String order) {
        return Parity.of("SELECT v, s, d, ts FROM t ORDER BY " + order).input("t", COLUMNS, rows());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "ts",
                "ts, v",
                "ts, v DESC NULLS LAST, s",
                "ts, s DESC, v NULLS LAST",
                "ts ASC, UPPER(s), v DESC"
            })
    void byRowTime(String order) throws Exception {
        sorted(order).batchSizes(1, 7, 4096).run();
    }

    @Test
    void byRowTimeInRocksDb() throws Exception {
        sorted("ts, v").states(7, KeptState.ROCKSDB_WITHOUT_CACHE).run();
    }

    @Test
    void byProcessingTimeAloneRowsGoOn() throws Exception {
        sorted("pt").run();
    }

    /** Which rows share a millisecond, and which ones still wait when the input ends and are lost, is up to the clock. */
    @Test
    void byProcessingTimeItIsNative() {
        assertThat(sorted("pt, v").explain().nativeNodes()).extracting(PlanReport.Node::kind).contains("TemporalSort");
    }

    @Test
    void byDoublesStaysOnFlink() throws Exception {
        sorted("ts, d").expectStock("TemporalSort", "FLOAT or DOUBLE").expectStock("Exchange", "").run();
    }

    private static List<Row> rows() {
        Random random = new Random(3);
        List<Row> rows = new ArrayList<>();
        LocalDateTime start = LocalDateTime.of(1969, 12, 31, 23, 58, 0);
        int seconds = 0;
        for (int i = 0; i < ROWS; i++) {
            seconds += random.nextInt(20) == 0 ? 30 : random.nextInt(2);
            int time = seconds - random.nextInt(random.nextInt(9) == 0 ? 6 : 2);
            rows.add(Row.of(
                    random.nextInt(7) == 0 ? null : random.nextInt(5),
                    random.nextInt(6) == 0 ? null : "s" + random.nextInt(4),
                    random.nextInt(1000) / 7.0,
                    start.plusSeconds(time)));
        }
        return rows;
    }
}
