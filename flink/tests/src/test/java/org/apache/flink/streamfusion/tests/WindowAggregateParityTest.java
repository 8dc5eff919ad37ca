package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.Instant;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** Aggregates over TUMBLE, HOP and CUMULATE in one phase and in two, over rows and over rows that have a window. */
@RequiresNative
class WindowAggregateParityTest {
    private static final String TUMBLE = "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)";
    private static final String HOP = "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)";
    private static final String CUMULATE = "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)";

    /** Some that two phases can merge. */
    private static final String MERGEABLE = "COUNT(*), SUM(v), AVG(v), MIN(v), MAX(name), COUNT(name) FILTER (WHERE v > 2)";

    private static final String[] ONE_PHASE = {"WatermarkAssigner", "Calc", "Exchange", "WindowAggregate", "Calc"};

    private static final String[] TWO_PHASES = {
        "WatermarkAssigner", "Calc", "LocalWindowAggregate", "Exchange", "GlobalWindowAggregate", "Calc"
    };

    private static String query(String calls, String window) {
        return "SELECT k, window_start, window_end" + (calls.isEmpty() ? "" : ", " + calls) + ", COALESCE(k, -1) AS g FROM TABLE("
                + window + ") GROUP BY k, window_start, window_end";
    }

    private static Parity over(String select, List<Row> rows) {
        return Parity.of(select)
                .input("t", WindowedRows.local("'2' SECOND"), rows)
                .upsertBy("g")
                .perKey();
    }

    private static Parity onePhase(String calls, String window) {
        return over(query(calls, window), WindowedRows.rows(900, 7))
                .set("table.optimizer.agg-phase-strategy", "ONE_PHASE")
                .expectNative(ONE_PHASE);
    }

    private static Parity twoPhases(String calls, String window) {
        return over(query(calls, window), WindowedRows.rows(900, 7)).expectNative(TWO_PHASES);
    }

    @ParameterizedTest
    @ValueSource(strings = {TUMBLE, HOP, CUMULATE})
    void windowsOfRowsWithLateOnes(String window) throws Exception {
        onePhase(MERGEABLE, window).batchSizes(1, 2, 7, 4096).run();
        twoPhases(MERGEABLE, window).batchSizes(1, 2, 7, 4096).run();
    }

    @ParameterizedTest
    @ValueSource(strings = {TUMBLE, HOP, CUMULATE})
    void groupsWithoutAggregates(String window) throws Exception {
        onePhase("", window).batchSizes(7).run();
        twoPhases("", window).batchSizes(7).run();
    }

    @ParameterizedTest
    @ValueSource(strings = {TUMBLE, HOP, CUMULATE})
    void sumsAloneAreCountedWhereFlinkCountsThem(String window) throws Exception {
        onePhase("SUM(v)", window).batchSizes(7).run();
        twoPhases("SUM(v)", window).batchSizes(7).run();
    }

    @ParameterizedTest
    @ValueSource(strings = {TUMBLE, HOP, CUMULATE})
    void distinctValuesWithFilters(String window) throws Exception {
        // Flink has no code that puts distinct sums of slices together
        String sum = window.equals(HOP) ? "" : "SUM(DISTINCT v) FILTER (WHERE id > 300), ";
        onePhase("COUNT(DISTINCT v), " + sum + "COUNT(DISTINCT name), MAX(DISTINCT v), COUNT(*)", window)
                .batchSizes(1, 4096)
                .run();
    }

    @Test
    void firstAndLastValues() throws Exception {
        onePhase("FIRST_VALUE(v), LAST_VALUE(name), LAST_VALUE(id)", TUMBLE).batchSizes(1, 7).run();
    }

    @ParameterizedTest
    @ValueSource(strings = {TUMBLE, HOP, CUMULATE})
    void distinctValuesInTwoPhases(String window) throws Exception {
        twoPhases("COUNT(DISTINCT v), COUNT(DISTINCT v) FILTER (WHERE id > 300), COUNT(DISTINCT name), COUNT(*), SUM(v)", window)
                .batchSizes(7)
                .run();
    }

    @Test
    void distinctSumsInTwoPhasesOnRocksDb() throws Exception {
        twoPhases("COUNT(DISTINCT v), SUM(DISTINCT v), AVG(DISTINCT v) FILTER (WHERE id > 300), COUNT(DISTINCT name)", TUMBLE)
                .set("state.backend.type", "rocksdb")
                .parallelism(2)
                .batchSizes(7)
                .run();
    }

    @Test
    void distinctSumsOfDoublesInTwoPhasesStayOnFlink() throws Exception {
        over(query("COUNT(DISTINCT v), SUM(DISTINCT CAST(v AS DOUBLE))", TUMBLE), WindowedRows.rows(300, 7))
                .expectStock("LocalWindowAggregate", "hash map")
                .expectStock("GlobalWindowAggregate", "")
                .expectStock("Exchange", "")
                .run();
    }

    @ParameterizedTest
    @ValueSource(strings = {TUMBLE, HOP, CUMULATE})
    void withoutKeys(String window) throws Exception {
        String select = "SELECT window_start, window_end, COUNT(*), SUM(v) FROM TABLE(" + window + ") GROUP BY window_start, window_end";
        for (String strategy : new String[] {"ONE_PHASE", "TWO_PHASE"}) {
            Parity.of(select)
                    .input("t", WindowedRows.local("'2' SECOND"), WindowedRows.rows(600, 5))
                    .set("table.optimizer.agg-phase-strategy", strategy)
                    .batchSizes(1, 7)
                    .run();
        }
    }

    @Test
    void windowTimeAndCascades() throws Exception {
        String inner = "SELECT k, window_time AS wt, SUM(v) AS s, COUNT(*) AS c FROM TABLE(" + TUMBLE
                + ") GROUP BY k, window_start, window_end, window_time";
        for (String strategy : new String[] {"ONE_PHASE", "TWO_PHASE"}) {
            Parity.of("CREATE VIEW i AS " + inner,
                            "SELECT k, window_start, window_end, window_time, SUM(s), MAX(c), COALESCE(k, -1) AS g FROM TABLE(TUMBLE(TABLE i,"
                                    + " DESCRIPTOR(wt), INTERVAL '1' MINUTE)) GROUP BY k, window_start, window_end, window_time")
                    .input("t", WindowedRows.local("'2' SECOND"), WindowedRows.rows(900, 3))
                    .set("table.optimizer.agg-phase-strategy", strategy)
                    .upsertBy("g")
                    .perKey()
                    .batchSizes(1, 7)
                    .run();
        }
    }

    @Test
    void rowsThatHaveAWindow() throws Exception {
        String inner = "SELECT k, v, window_start, window_end, COUNT(*) AS c FROM TABLE(" + HOP
                + ") GROUP BY k, v, window_start, window_end";
        for (String strategy : new String[] {"ONE_PHASE", "TWO_PHASE"}) {
            over("SELECT k, window_start, window_end, MAX(c), COUNT(*), COALESCE(k, -1) AS g FROM (" + inner
                            + ") GROUP BY k, window_start, window_end", WindowedRows.rows(900, 4))
                    .set("table.optimizer.agg-phase-strategy", strategy)
                    .batchSizes(1, 7)
                    .run();
        }
    }

    @ParameterizedTest
    @CsvSource({
        "America/Los_Angeles, 2024-03-10T08:00:00Z", "America/Los_Angeles, 2024-11-03T07:00:00Z",
        "Asia/Shanghai, 2024-05-01T10:00:00Z", "Asia/Kolkata, 2024-05-01T10:00:00Z", "UTC, 2024-05-01T10:00:00Z",
        "Pacific/Apia, 2011-12-30T08:00:00Z"
    })
    void localWindowsOfInstants(String zone, String start) throws Exception {
        for (String strategy : new String[] {"ONE_PHASE", "TWO_PHASE"}) {
            for (String window : new String[] {
                "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '30' MINUTE)",
                "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '30' MINUTE, INTERVAL '2' HOUR)",
                "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '30' MINUTE, INTERVAL '3' HOUR)"
            }) {
                Parity parity = Parity.of(
                                "SELECT k, window_start, window_end, window_time, COUNT(*), SUM(v), COALESCE(k, -1) AS g FROM TABLE("
                                        + window + ") GROUP BY k, window_start, window_end, window_time")
                        .input("t", WindowedRows.instants("'5' MINUTE"), WindowedRows.instants(600, 9, 60_000, Instant.parse(start)))
                        .set("table.local-time-zone", zone)
                        .set("table.optimizer.agg-phase-strategy", strategy);
                // windows on both sides of a day that was left out end at one instant, in no order that Flink defines
                parity = zone.equals("Pacific/Apia") ? parity.finalTable() : parity.upsertBy("g").perKey();
                parity.batchSizes(7).run();
            }
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {TUMBLE, HOP, CUMULATE})
    void changelogsThatRetract(String window) throws Exception {
        for (String calls : new String[] {"COUNT(*), SUM(v), AVG(v)", "MAX(v), MIN(name)", "COUNT(DISTINCT v), SUM(DISTINCT v)"}) {
            Parity.of(query(calls, window))
                    .changelog("t", WindowedRows.local("'2' SECOND"), "+I,-U,+U,-D", changes())
                    .set("table.optimizer.agg-phase-strategy", "ONE_PHASE")
                    .upsertBy("g")
                    .perKey()
                    .expectNative(ONE_PHASE)
                    .batchSizes(1, 7)
                    .run();
        }
        for (String calls : new String[] {
            "COUNT(*), SUM(v), AVG(v)", "MAX(v), MIN(name) FILTER (WHERE v > 2)", "COUNT(DISTINCT v), COUNT(DISTINCT name), SUM(v)"
        }) {
            Parity.of(query(calls, window))
                    .changelog("t", WindowedRows.local("'2' SECOND"), "+I,-U,+U,-D", changes())
                    .upsertBy("g")
                    .perKey()
                    .expectNative(TWO_PHASES)
                    .batchSizes(1, 7)
                    .run();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"hashmap", "rocksdb"})
    void inParallelOnEitherBackend(String backend) throws Exception {
        twoPhases(MERGEABLE, HOP).set("state.backend.type", backend).parallelism(2).batchSizes(7).run();
        onePhase(MERGEABLE, CUMULATE).set("state.backend.type", backend).parallelism(2).batchSizes(7).run();
    }

    @Test
    void beforeTheEpochAndFarAway() throws Exception {
        List<Row> rows = new ArrayList<>();
        for (LocalDateTime time : List.of(
                LocalDateTime.of(1, 1, 1, 0, 0, 5), LocalDateTime.of(1969, 12, 31, 23, 59, 59),
                LocalDateTime.of(1970, 1, 1, 0, 0), LocalDateTime.of(9999, 12, 31, 23, 59, 45))) {
            for (int i = 0; i < 3; i++) {
                rows.add(Row.of(i, 1, i, "n", time.plusSeconds(i)));
            }
        }
        for (String strategy : new String[] {"ONE_PHASE", "TWO_PHASE"}) {
            over(query("COUNT(*), SUM(v)", TUMBLE), rows)
                    .set("table.optimizer.agg-phase-strategy", strategy)
                    .batchSizes(1, 7)
                    .run();
        }
    }

    /** Rows, of which some are taken back, most of them in time. */
    private static List<Row> changes() {
        Random random = new Random(5);
        List<Row> changes = new ArrayList<>();
        List<Row> live = new ArrayList<>();
        for (Row row : WindowedRows.rows(700, 21)) {
            changes.add(row);
            live.add(row);
            if (random.nextInt(3) == 0) {
                int index = Math.max(0, live.size() - 1 - random.nextInt(12));
                Row back = Row.copy(live.remove(index));
                back.setKind(random.nextBoolean() ? RowKind.DELETE : RowKind.UPDATE_BEFORE);
                changes.add(back);
            }
        }
        return changes;
    }
}
