package org.apache.flink.streamfusion.tests;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.Instant;

/**
 * Joins of two streams per window. Watermarks wait for the latest row of their input: whether a row is late depends on how far the other
 * input has come, which differs from run to run.
 */
@RequiresNative
class WindowJoinParityTest {
    private static final String WINDOWS = "l.window_start = r.window_start AND l.window_end = r.window_end";

    private static String tumble(String table) {
        return "(SELECT * FROM TABLE(TUMBLE(TABLE " + table + ", DESCRIPTOR(ts), INTERVAL '10' SECOND)))";
    }

    private static Parity over(String select) {
        return Parity.of(select)
                .input("a", WindowedRows.local("'60' SECOND"), WindowedRows.rows(500, 3))
                .input("b", WindowedRows.local("'60' SECOND"), WindowedRows.rows(400, 4))
                .set(WindowedRows.EXACT_WATERMARKS[0], WindowedRows.EXACT_WATERMARKS[1])
                .upsertBy("g")
                .perKey();
    }

    private static String pairs(String type, String on) {
        return "SELECT COALESCE(l.k, r.k, -1) AS g, COALESCE(l.name, r.name, '-') AS h, l.id, l.v, l.window_end, r.id AS other, r.v AS w, r.window_start FROM "
                + tumble("a") + " l " + type + " JOIN " + tumble("b") + " r ON " + WINDOWS + " AND " + on;
    }

    @ParameterizedTest
    @ValueSource(strings = {"INNER", "LEFT", "RIGHT", "FULL"})
    void pairs(String type) throws Exception {
        over(pairs(type, "l.k = r.k"))
                .batchSizes(1, 2, 7, 4096)
                .expectNative(
                        "WatermarkAssigner", "WindowTableFunction", "Calc", "Exchange",
                        "WatermarkAssigner", "WindowTableFunction", "Calc", "Exchange", "WindowJoin", "Calc")
                .run();
        over(pairs(type, "l.k = r.k AND l.v < r.v")).batchSizes(1, 4096).run();
    }

    @ParameterizedTest
    @CsvSource({"INNER", "LEFT", "RIGHT", "FULL"})
    void nullsThatAreEqualAndSeveralKeys(String type) throws Exception {
        over(pairs(type, "l.k IS NOT DISTINCT FROM r.k")).batchSizes(7).run();
        over(pairs(type, "l.k IS NOT DISTINCT FROM r.k AND l.name = r.name AND l.id <> r.id"))
                .upsertBy("h")
                .batchSizes(7)
                .run();
    }

    /** The left rows {@code WHERE} something is so. */
    private static String leftRows(String where) {
        return "SELECT COALESCE(k, -1) AS g, id, v, window_end FROM " + tumble("a") + " l WHERE " + where;
    }

    @ParameterizedTest
    @ValueSource(strings = {"IN", "NOT IN"})
    void inASubquery(String in) throws Exception {
        for (String condition : new String[] {"", " AND l.v < r.v"}) {
            over(leftRows("l.k " + in + " (SELECT k FROM " + tumble("b") + " r WHERE " + WINDOWS + condition + ")"))
                    .batchSizes(1, 4096)
                    .run();
        }
    }

    @Test
    void antiJoin() throws Exception {
        String exists = "EXISTS (SELECT 1 FROM " + tumble("b") + " r WHERE " + WINDOWS + " AND l.k = r.k AND l.v < r.v)";
        over(leftRows("NOT " + exists)).batchSizes(1, 4096).run();
    }

    @Test
    void noEqualColumns() throws Exception {
        over("SELECT 0 AS g, l.id, r.id AS other, l.window_end FROM " + tumble("a") + " l JOIN " + tumble("b") + " r ON " + WINDOWS
                        + " AND l.v < r.v AND r.k = 3")
                .run();
    }

    @ParameterizedTest
    @CsvSource({
        "America/Los_Angeles, 2024-03-10T08:00:00Z", "America/Los_Angeles, 2024-11-03T07:00:00Z", "Asia/Kolkata, 2024-05-01T10:00:00Z"
    })
    void localWindowsOfInstants(String zone, String start) throws Exception {
        Parity.of(pairs("FULL", "l.k = r.k").replace("'10' SECOND", "'1' HOUR"))
                .input("a", WindowedRows.instants("'12' HOUR"), WindowedRows.instants(300, 9, 60_000, Instant.parse(start)))
                .input("b", WindowedRows.instants("'12' HOUR"), WindowedRows.instants(300, 5, 60_000, Instant.parse(start)))
                .set(WindowedRows.EXACT_WATERMARKS[0], WindowedRows.EXACT_WATERMARKS[1])
                .set("table.local-time-zone", zone)
                .upsertBy("g")
                .perKey()
                .batchSizes(1, 4096)
                .run();
    }

    @Test
    void inParallel() throws Exception {
        over(pairs("FULL", "l.k = r.k")).set("state.backend.type", "rocksdb").parallelism(2).finalTable().batchSizes(7).run();
    }

    @Test
    void conditionForTheJvmStaysOnFlink() throws Exception {
        over(pairs("INNER", "l.k = r.k AND REGEXP_REPLACE(l.name, 'n', 'm') > r.name"))
                .expectStock("WindowJoin", "condition")
                .expectStock("Exchange", "")
                .run();
    }
}
