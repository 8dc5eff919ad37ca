package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;

import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.util.List;

/**
 * Queries in event time over real {@linkplain Flights flights}, whose scheduled hours are out of order by up to a day: with watermarks that do not wait for
 * them, so that many are late, and with watermarks that wait for a day, so that none is.
 */
@RequiresNative
class FlightsByTimeParityTest {
    private static final String NONE = "";
    private static final String A_DAY = " - INTERVAL '1' DAY";

    private static List<Row> flights;

    @BeforeAll
    static void read() throws Exception {
        flights = Flights.rows();
    }

    private static String columns(String delay) {
        return Flights.COLUMNS + ", WATERMARK FOR time_hour AS time_hour" + delay;
    }

    private static Parity flights(String select, String delay) {
        return Parity.of(select).input("flights", columns(delay), flights).batchSizes(1, 7, 4096);
    }

    /** Per carrier, for Flink has no order among the groups of a window. */
    private static Parity perCarrier(String select, String delay) {
        return flights(select, delay).upsertBy("carrier").perKey();
    }

    /** The same; where watermarks do not wait, rows are late. */
    private static Parity withLateRows(String select, String delay) {
        Parity parity = perCarrier(select, delay);
        return delay.equals(NONE) ? parity.expectLateRows() : parity;
    }

    private enum Window {
        TUMBLE("TUMBLE(TABLE flights, DESCRIPTOR(time_hour), INTERVAL '3' HOUR)"),
        HOP("HOP(TABLE flights, DESCRIPTOR(time_hour), INTERVAL '1' HOUR, INTERVAL '6' HOUR)"),
        CUMULATE("CUMULATE(TABLE flights, DESCRIPTOR(time_hour), INTERVAL '2' HOUR, INTERVAL '1' DAY)"),
        SESSION("SESSION(TABLE flights PARTITION BY carrier, DESCRIPTOR(time_hour), INTERVAL '2' HOUR)");

        private final String call;

        Window(String call) {
            this.call = call;
        }
    }

    @ParameterizedTest
    @EnumSource(Window.class)
    void aggregates(Window window) throws Exception {
        String select = "SELECT carrier, window_start, window_end, COUNT(*), COUNT(arr_delay), SUM(distance), AVG(arr_delay), MIN(dep_delay), "
                + "MAX(tailnum), COUNT(DISTINCT dest) FROM TABLE(" + window.call + ") GROUP BY carrier, window_start, window_end";
        for (String delay : List.of(NONE, A_DAY)) {
            withLateRows(select, delay)
                    .set("table.optimizer.agg-phase-strategy", "ONE_PHASE")
                    .expectNative("WatermarkAssigner", "Calc", "Exchange", "WindowAggregate", "Calc")
                    .run();
            // Flink counts late accumulators of the local phase, however many rows they have
            if (window != Window.SESSION) {
                perCarrier(select, delay)
                        .expectNative("WatermarkAssigner", "Calc", "LocalWindowAggregate", "Exchange", "GlobalWindowAggregate", "Calc")
                        .run();
            }
        }
    }

    @ParameterizedTest
    @EnumSource(value = Window.class, names = {"TUMBLE", "HOP"})
    void latestFlightsOfEachWindow(Window window) throws Exception {
        String select = "SELECT carrier, window_end, arr_delay, id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, "
                + "carrier ORDER BY arr_delay DESC) AS n FROM TABLE(" + window.call + ")) WHERE n <= 3";
        for (String delay : List.of(NONE, A_DAY)) {
            withLateRows(select, delay)
                    .expectNative("WatermarkAssigner", "WindowTableFunction", "Calc", "Exchange", "WindowRank", "Calc")
                    .run();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"time_hour", "time_hour DESC"})
    void firstAndLastFlightOfEachWindow(String order) throws Exception {
        String select = "SELECT carrier, window_end, time_hour, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, "
                + "carrier ORDER BY " + order + ") AS n FROM TABLE(" + Window.TUMBLE.call + ")) WHERE n = 1";
        for (String delay : List.of(NONE, A_DAY)) {
            withLateRows(select, delay)
                    .expectNative("WatermarkAssigner", "WindowTableFunction", "Calc", "Exchange", "WindowDeduplicate", "Calc")
                    .run();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "ROWS BETWEEN UNBOUNDED PRECEDING", "ROWS BETWEEN 4 PRECEDING", "RANGE BETWEEN UNBOUNDED PRECEDING",
        "RANGE BETWEEN INTERVAL '3' HOUR PRECEDING"
    })
    void flightsBefore(String frame) throws Exception {
        String select = "SELECT carrier, id, COUNT(*) OVER w, SUM(distance) OVER w, AVG(arr_delay) OVER w, MIN(dep_delay) OVER w, "
                + "COUNT(DISTINCT dest) OVER w FROM flights WINDOW w AS (PARTITION BY carrier ORDER BY time_hour " + frame
                + " AND CURRENT ROW)";
        for (String delay : List.of(NONE, A_DAY)) {
            withLateRows(select, delay).expectNative("WatermarkAssigner", "Calc", "Exchange", "OverAggregate", "Calc").run();
        }
    }

    /**
     * Flights and later ones to the same destination. With watermarks that wait for a day no row comes too late for another one. No time of
     * the right side goes out, since Flink's sink fails on a row time that is NULL.
     */
    @ParameterizedTest
    @ValueSource(strings = {"JOIN", "LEFT JOIN", "FULL JOIN"})
    void flightsNearEachOther(String type) throws Exception {
        Parity.of(near(type))
                .input("l", columns(A_DAY), Flights.from(flights, "EWR", "JFK"))
                .input("r", columns(A_DAY), Flights.from(flights, "LGA"))
                .batchSizes(1, 7, 4096)
                .finalTable()
                .run();
    }

    /** Which rows come too late for each other depends on how far the other input has come, so one comes behind the other. */
    @Test
    void lateFlightsNearEachOther() throws Exception {
        Parity.of(near("JOIN"))
                .input("l", columns(NONE), Flights.from(flights, "EWR", "JFK"))
                .inputBehind("l", "r", columns(NONE), Flights.from(flights, "LGA"))
                .batchSizes(1, 7, 4096)
                .finalTable()
                .run();
    }

    private static String near(String type) {
        return "SELECT l.id, r.id, l.dest, r.distance FROM l " + type + " r ON l.dest = r.dest AND "
                + "r.time_hour BETWEEN l.time_hour - INTERVAL '1' HOUR AND l.time_hour + INTERVAL '3' HOUR";
    }
}
