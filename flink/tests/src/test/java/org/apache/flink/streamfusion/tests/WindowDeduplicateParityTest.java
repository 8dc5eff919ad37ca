package org.apache.flink.streamfusion.tests;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.time.Instant;

/** The first and the last row of each key and window. */
@RequiresNative
class WindowDeduplicateParityTest {
    private static final String TUMBLE = "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)";

    /** {@code g} is the key without NULL. */
    private static String first(String window, String partition, String order) {
        return "SELECT COALESCE(k, -1) AS g, COALESCE(name, '-') AS h, k, v, name, id, ts, window_end FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY "
                + "window_start, window_end" + partition + " ORDER BY " + order + ") AS n FROM TABLE(" + window + ")) WHERE n = 1";
    }

    private static Parity over(String select) {
        return Parity.of(select)
                .input("t", WindowedRows.local("'2' SECOND"), WindowedRows.rows(900, 7))
                .set(WindowedRows.EXACT_WATERMARKS[0], WindowedRows.EXACT_WATERMARKS[1])
                .upsertBy("g")
                .perKey();
    }

    @ParameterizedTest
    @CsvSource({"ts", "ts DESC"})
    void rowTime(String order) throws Exception {
        over(first(TUMBLE, ", k", order))
                .batchSizes(1, 2, 7, 4096)
                .expectNative("WatermarkAssigner", "WindowTableFunction", "Calc", "Exchange", "WindowDeduplicate", "Calc")
                .run();
        over(first(TUMBLE, ", k, name", order)).upsertBy("h").batchSizes(7).run();
    }

    @ParameterizedTest
    @CsvSource({"ts", "ts DESC"})
    void hoppingWindowsAndAllRowsTogether(String order) throws Exception {
        String hop = "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '3' SECOND, INTERVAL '10' SECOND)";
        over(first(hop, ", k", order)).batchSizes(1, 4096).run();
        over(first(TUMBLE, "", order)).batchSizes(7).run();
    }

    @ParameterizedTest
    @CsvSource({
        "America/Los_Angeles, 2024-03-10T08:00:00Z", "America/Los_Angeles, 2024-11-03T07:00:00Z",
        "Asia/Kolkata, 2024-05-01T10:00:00Z", "Pacific/Apia, 2011-12-30T08:00:00Z"
    })
    void localWindowsOfInstants(String zone, String start) throws Exception {
        String window = "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)";
        Parity.of(first(window, ", k", "ts DESC"))
                .input("t", WindowedRows.instants("'5' MINUTE"), WindowedRows.instants(600, 9, 60_000, Instant.parse(start)))
                .set(WindowedRows.EXACT_WATERMARKS[0], WindowedRows.EXACT_WATERMARKS[1])
                .set("table.local-time-zone", zone)
                .upsertBy("g")
                .perKey()
                .batchSizes(1, 4096)
                .run();
    }

    @ParameterizedTest
    @CsvSource({"pt", "pt DESC"})
    void processingTime(String order) throws Exception {
        over(first(TUMBLE.replace("TABLE t", "TABLE p"), ", k", order))
                .input("p", WindowedRows.local("'2' SECOND") + ", pt AS PROCTIME()", WindowedRows.rows(900, 7))
                .batchSizes(7)
                .run();
    }

    @Test
    void inParallel() throws Exception {
        over(first(TUMBLE, ", k", "ts DESC")).set("state.backend.type", "rocksdb").parallelism(2).batchSizes(7).run();
    }
}
