package org.apache.flink.streamfusion.tests;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.Instant;

/** Top-N per window: of rows, of window aggregates, in several kinds of windows and zones. */
@RequiresNative
class WindowTopNParityTest {
    private static final String TUMBLE = "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)";

    /** The rows of a range by key, window and an order; {@code g} is the key without NULL. */
    private static String topN(String window, String order, String range, boolean number) {
        return "SELECT COALESCE(k, -1) AS g, k, v, name, id, window_start, window_end" + (number ? ", n" : "")
                + " FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY " + order + ") AS n"
                + " FROM TABLE(" + window + ")) WHERE " + range;
    }

    private static Parity over(String select) {
        return Parity.of(select)
                .input("t", WindowedRows.local("'2' SECOND"), WindowedRows.rows(900, 7))
                .set(WindowedRows.EXACT_WATERMARKS[0], WindowedRows.EXACT_WATERMARKS[1])
                .upsertBy("g")
                .perKey();
    }

    @ParameterizedTest
    @ValueSource(strings = {"n <= 3", "n BETWEEN 2 AND 4", "n = 2", "n = 1"})
    void ranges(String range) throws Exception {
        over(topN(TUMBLE, "v DESC", range, true))
                .batchSizes(1, 2, 7, 4096)
                .expectNative("WatermarkAssigner", "WindowTableFunction", "Calc", "Exchange", "WindowRank", "Calc")
                .run();
        over(topN(TUMBLE, "v DESC", range, false)).batchSizes(7).run();
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '3' SECOND, INTERVAL '10' SECOND)",
        "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)",
        "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '7' SECOND, INTERVAL '-2' SECOND)"
    })
    void windows(String window) throws Exception {
        over(topN(window, "v, id DESC", "n <= 2", true)).batchSizes(1, 4096).run();
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "name", "name DESC NULLS LAST, v", "v DESC NULLS LAST", "v NULLS FIRST, name DESC", "ts DESC, v", "ts, name"
    })
    void ordersWithNullsInEveryPlace(String order) throws Exception {
        over(topN(TUMBLE, order, "n <= 4", true)).batchSizes(7).run();
    }

    @Test
    void allRowsOfAWindowTogether() throws Exception {
        Parity.of("SELECT g, id, n FROM (SELECT 0 AS g, id, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v) AS n"
                        + " FROM TABLE(" + TUMBLE + ")) WHERE n <= 5")
                .input("t", WindowedRows.local("'2' SECOND"), WindowedRows.rows(900, 8))
                .set(WindowedRows.EXACT_WATERMARKS[0], WindowedRows.EXACT_WATERMARKS[1])
                .run();
    }

    @ParameterizedTest
    @CsvSource({
        "America/Los_Angeles, 2024-03-10T08:00:00Z", "America/Los_Angeles, 2024-11-03T07:00:00Z",
        "Asia/Kolkata, 2024-05-01T10:00:00Z", "UTC, 2024-05-01T10:00:00Z", "Pacific/Apia, 2011-12-30T08:00:00Z"
    })
    void localWindowsOfInstants(String zone, String start) throws Exception {
        String window = "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)";
        Parity.of(topN(window, "v DESC", "n <= 3", true))
                .input("t", WindowedRows.instants("'5' MINUTE"), WindowedRows.instants(600, 9, 60_000, Instant.parse(start)))
                .set(WindowedRows.EXACT_WATERMARKS[0], WindowedRows.EXACT_WATERMARKS[1])
                .set("table.local-time-zone", zone)
                .upsertBy("g")
                .perKey()
                .batchSizes(1, 4096)
                .expectNative("WatermarkAssigner", "WindowTableFunction", "Calc", "Exchange", "WindowRank", "Calc")
                .run();
    }

    @ParameterizedTest
    @ValueSource(strings = {"hashmap", "rocksdb"})
    void inParallelOnEitherBackend(String backend) throws Exception {
        over(topN(TUMBLE, "v DESC, id", "n <= 3", true)).set("state.backend.type", backend).parallelism(2).batchSizes(7).run();
    }

    @Test
    void sortingByADoubleStaysOnFlink() throws Exception {
        over(topN(TUMBLE, "CAST(v AS DOUBLE)", "n <= 3", false))
                .expectStock("WindowRank", "FLOAT or DOUBLE")
                .expectStock("Exchange", "")
                .run();
    }
}
