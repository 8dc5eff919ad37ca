package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;

import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.util.List;

/** Updating queries over real {@linkplain Flights flights} and over the changelogs that they make, with mini-batch and without. */
@RequiresNative
class FlightsParityTest {
    private static final String BUNDLE = "100";
    private static final String MINI_BATCH = "MiniBatchAssigner";

    private static List<Row> flights;

    @BeforeAll
    static void read() throws Exception {
        flights = Flights.rows();
    }

    private static Parity flights(String statement, String columns) {
        return Parity.of(statement).input("flights", Flights.COLUMNS + columns, flights).batchSizes(1, 7, 4096);
    }

    private static Parity planes(String statement) {
        return Parity.of(statement)
                .changelog("planes", Flights.PLANES, Flights.ALL_KINDS, Flights.planes(flights))
                .batchSizes(1, 7, 4096);
    }

    /** No marker comes while the job runs: bundles end by their size and with the input. */
    private static Parity inBundles(boolean bundles, Parity parity) {
        return bundles
                ? parity.set("table.exec.mini-batch.enabled", "true")
                        .set("table.exec.mini-batch.size", BUNDLE)
                        .set("table.exec.mini-batch.allow-latency", "1 h")
                : parity;
    }

    // --------------------------------------------------------------------------------------------------------- GROUP BY

    private enum Phases {
        IMMEDIATE("Calc", "Exchange", "GroupAggregate"),
        ONE_PHASE(MINI_BATCH, "Calc", "Exchange", "GroupAggregate"),
        TWO_PHASE(MINI_BATCH, "Calc", "LocalGroupAggregate", "Exchange", "GlobalGroupAggregate"),
        SPLIT_DISTINCT(
                MINI_BATCH, "Calc", "Expand", "Calc", "LocalGroupAggregate", "Exchange", "IncrementalGroupAggregate", "Exchange",
                "GlobalGroupAggregate", "Calc");

        private final String[] nodes;

        Phases(String... nodes) {
            this.nodes = nodes;
        }

        /** Flink goes through the groups of a bundle in the order of a hash map, so tables are compared where there are bundles. */
        Parity of(Parity parity) {
            inBundles(this != IMMEDIATE, parity)
                    .set("table.optimizer.agg-phase-strategy", this == TWO_PHASE || this == SPLIT_DISTINCT ? "TWO_PHASE" : "ONE_PHASE")
                    .set("table.optimizer.distinct-agg.split.enabled", Boolean.toString(this == SPLIT_DISTINCT))
                    .expectNative(nodes);
            return this == IMMEDIATE ? parity : parity.finalTable();
        }
    }

    private static String groups(String table) {
        return "SELECT carrier, origin, COUNT(*), COUNT(arr_delay), SUM(distance), AVG(arr_delay), MIN(dep_delay), MAX(arr_delay), "
                + "COUNT(DISTINCT dest), COUNT(DISTINCT dest) FILTER (WHERE arr_delay > 15) FROM " + table + " GROUP BY carrier, origin";
    }

    @ParameterizedTest
    @EnumSource(Phases.class)
    void groupsOfFlights(Phases phases) throws Exception {
        phases.of(flights(groups("flights"), "")).run();
    }

    @ParameterizedTest
    @EnumSource(Phases.class)
    void groupsOfPlanesThatMove(Phases phases) throws Exception {
        phases.of(planes(groups("planes"))).run();
    }

    // --------------------------------------------------------------------------------------------------------- per plane

    @ParameterizedTest
    @CsvSource({"false, ''", "true, ''", "false, WHERE arr_delay > 15", "true, WHERE arr_delay > 15"})
    void upsertsPerPlane(boolean bundles, String condition) throws Exception {
        Parity parity = Parity.of("INSERT INTO latest SELECT * FROM planes " + condition)
                .changelog("planes", Flights.PLANES, Flights.UPSERTS, Flights.upserts(flights))
                .sink("latest", Flights.PLANES)
                .perKey()
                .batchSizes(1, 7, 4096)
                .expectNative("Exchange", "ChangelogNormalize");
        inBundles(bundles, parity).run();
    }

    @ParameterizedTest
    @CsvSource({
        "pt, ASC, false", "pt, DESC, false", "time_hour, ASC, false", "time_hour, DESC, false",
        "pt, ASC, true", "pt, DESC, true", "time_hour, DESC, true"
    })
    void firstAndLastFlightOfEachPlane(String time, String direction, boolean bundles) throws Exception {
        boolean byArrival = time.equals("pt");
        Parity parity = Parity.of(("INSERT INTO flight_of_plane SELECT tailnum, id, dest, time_hour FROM "
                                + "(SELECT *, ROW_NUMBER() OVER (PARTITION BY tailnum ORDER BY %s %s) AS n FROM flights) WHERE n = 1")
                        .formatted(time, direction))
                .input(
                        "flights",
                        Flights.COLUMNS
                                + (byArrival ? ", pt AS PROCTIME()" : ", WATERMARK FOR time_hour AS time_hour - INTERVAL '1' DAY"),
                        Flights.withPlane(flights))
                .sink("flight_of_plane", "tailnum STRING, id INT, dest STRING, time_hour TIMESTAMP(3), PRIMARY KEY (tailnum) NOT ENFORCED")
                .perKey()
                .batchSizes(1, 7, 4096);
        inBundles(bundles, parity).run();
    }

    // ------------------------------------------------------------------------------------------------------------- Top-N

    private static String topN(String columns, String partition, String order, String from) {
        return "SELECT %1$s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY %2$s ORDER BY %3$s) AS n FROM %4$s) WHERE n <= 3"
                .formatted(columns, partition, order, from);
    }

    private static Parity topN(boolean bundles, Parity parity) {
        inBundles(bundles, parity).set("streamfusion.top-n.mini-batch", "true");
        return bundles ? parity.finalTable() : parity;
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void latestFlightsOfEachAirport(boolean bundles) throws Exception {
        for (String columns : List.of("origin, arr_delay, id, n", "origin, arr_delay, id")) {
            topN(bundles, flights(topN(columns, "origin", "arr_delay DESC", "flights"), "")).run();
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void mostFrequentDestinationsOfEachAirport(boolean bundles) throws Exception {
        String counts = "(SELECT origin, dest, COUNT(*) AS c FROM flights GROUP BY origin, dest)";
        topN(bundles, flights(topN("origin, dest, c, n", "origin", "c DESC, dest", counts), "")).run();
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void latestPlanesOfEachCarrier(boolean bundles) throws Exception {
        for (String columns : List.of("carrier, arr_delay, tailnum, n", "carrier, arr_delay, tailnum")) {
            topN(bundles, planes(topN(columns, "carrier", "arr_delay DESC, tailnum", "planes"))).run();
        }
    }

    // ------------------------------------------------------------------------------------------------------------- joins

    /** Planes that were at one airport, and at another one. The tables that are left are compared: Flink says nothing about which input comes first. */
    private static Parity join(String select, String left, String right) {
        return Parity.of(select)
                .changelog("l", left, Flights.ALL_KINDS, Flights.planes(Flights.from(flights, "EWR", "JFK")))
                .changelog("r", right, Flights.ALL_KINDS, Flights.planes(Flights.from(flights, "LGA")))
                .batchSizes(1, 7, 4096)
                .finalTable();
    }

    @ParameterizedTest
    @CsvSource({"JOIN, false", "JOIN, true", "LEFT JOIN, false", "LEFT JOIN, true"})
    void planesThatWereAtBothAirports(String type, boolean bundles) throws Exception {
        String select = "SELECT l.tailnum, l.dest, l.arr_delay, r.dest, r.arr_delay FROM l " + type + " r ON l.tailnum = r.tailnum";
        inBundles(bundles, join(select, Flights.PLANES, Flights.PLANES)).run();
    }

    @ParameterizedTest
    @CsvSource({"JOIN, false", "JOIN, true", "LEFT JOIN, false", "LEFT JOIN, true"})
    void planesWithTheSameDestination(String type, boolean bundles) throws Exception {
        String select = "SELECT l.tailnum, r.tailnum FROM l " + type + " r ON l.dest = r.dest AND l.carrier = r.carrier";
        inBundles(bundles, join(select, Flights.PLANES, Flights.COLUMNS)).run();
    }

    @ParameterizedTest
    @CsvSource({"EXISTS, false", "EXISTS, true", "NOT EXISTS, false", "NOT EXISTS, true"})
    void planesThatWereOrWereNotElsewhere(String exists, boolean bundles) throws Exception {
        String select = "SELECT tailnum, dest, arr_delay FROM l WHERE " + exists + " (SELECT 1 FROM r WHERE ";
        inBundles(bundles, join(select + "l.tailnum = r.tailnum)", Flights.PLANES, Flights.PLANES)).run();
        inBundles(bundles, join(select + "l.dest = r.dest AND l.arr_delay < r.arr_delay)", Flights.PLANES, Flights.COLUMNS)).run();
    }
}
