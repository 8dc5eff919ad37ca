package org.apache.flink.streamfusion.tests;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.streamfusion.runtime.Native;
import org.apache.flink.streamfusion.tests.connector.BidsFactory;
import org.apache.flink.table.api.StatementSet;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;

/**
 * Whole jobs over bids, stock Flink and native in turn in one JVM: rows per second and their ratio.
 *
 * <p>Parallelism 1, rows ready in memory as {@code BinaryRowData}, blackhole sink, no checkpoints. The time is that of
 * the job from submission to its end. Answers two questions: how much sooner a job ends, and whether native memory
 * stays flat over a long run with a fixed key set.
 *
 * <p>Arguments: rows per run (default 5,000,000), runs (5), rows of the memory run (10,000,000). To look at one job with a
 * profiler: the system property {@code streamfusion.bench.profile} names its letter, and only native runs of it are made. The property {@code streamfusion.bench.jobs}, for example {@code ad},
 * says which jobs to run.
 */
public final class BenchJob {
    private static final String INNER_CALC = "SELECT auction, "
            + "price * 2 + bidder AS a, "
            + "CASE WHEN price > 1000000 THEN bidder ELSE auction END AS b, "
            + "MOD(bidder, 100) AS c, "
            + "CHAR_LENGTH(channel) AS d, "
            + "SUBSTRING(url FROM 9 FOR 8) AS e, "
            + "EXTRACT(HOUR FROM date_time) AS f "
            + "FROM bids WHERE price > 100";

    private static final String BY_AUCTION =
            "SELECT auction, COUNT(*) AS n, SUM(price) AS s, MAX(price) AS m FROM bids GROUP BY auction";

    private static final List<Query> QUERIES = List.of(
            new Query("a: COUNT, SUM, MAX by 100,000 auctions", Bundles.NONE, BY_AUCTION),
            new Query(
                    "b: 3 filtered distinct counts by 100 channels",
                    Bundles.NONE,
                    "SELECT channel, "
                            + "COUNT(DISTINCT bidder) FILTER (WHERE price < 10000) AS low, "
                            + "COUNT(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS middle, "
                            + "COUNT(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS high "
                            + "FROM bids GROUP BY channel"),
            new Query(
                    "c: Calc with 6 expressions, then by 100,000 auctions",
                    Bundles.NONE,
                    "SELECT auction, SUM(a) AS a, MAX(b) AS b, SUM(c) AS c, MAX(d) AS d, MAX(e) AS e, MIN(f) AS f FROM ("
                            + INNER_CALC + ") GROUP BY auction"),
            new Query("d: as a, with mini-batch", Bundles.MINI_BATCH, BY_AUCTION),
            new Query(
                    "e: last bid of each auction by processing time, with mini-batch",
                    Bundles.MINI_BATCH,
                    "SELECT auction, bidder, price FROM (SELECT auction, bidder, price, ROW_NUMBER() OVER "
                            + "(PARTITION BY auction ORDER BY PROCTIME() DESC) AS r FROM bids) WHERE r = 1"),
            new Query(
                    "f: 10 highest bids of each auction",
                    Bundles.NONE,
                    "SELECT auction, bidder, price, r FROM (SELECT auction, bidder, price, ROW_NUMBER() OVER "
                            + "(PARTITION BY auction ORDER BY price DESC) AS r FROM bids) WHERE r <= 10"),
            new Query(
                    "g: counts joined with highest prices, by auction, with mini-batch",
                    Bundles.MINI_BATCH,
                    "SELECT a.auction, a.n, b.m FROM (SELECT auction, COUNT(*) AS n FROM bids GROUP BY auction) a JOIN "
                            + "(SELECT auction, MAX(price) AS m FROM bids WHERE price > 100 GROUP BY auction) b "
                            + "ON a.auction = b.auction"));

    /** Of each slot. Only native state reserves from it, as much as it uses. */
    private static final MemorySize MANAGED_MEMORY = MemorySize.ofMebiBytes(2048);

    private static final double NANOS_PER_SECOND = 1e9;
    private static final int KIB_PER_MIB = 1024;

    private BenchJob() {}

    /** Whether Flink emits once per bundle of rows. */
    private enum Bundles {
        NONE,
        MINI_BATCH
    }

    private record Query(String title, Bundles bundles, String select) {
        String letter() {
            return title.substring(0, 1);
        }
    }

    public static void main(String[] arguments) throws Exception {
        long rows = arguments.length > 0 ? Long.parseLong(arguments[0]) : 5_000_000L;
        int runs = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 5;
        long memoryRows = arguments.length > 2 ? Long.parseLong(arguments[2]) : 10_000_000L;

        LocalCluster.useManagedMemory(MANAGED_MEMORY);
        BidsFactory.prepare();
        String profiled = System.getProperty("streamfusion.bench.profile");
        if (profiled != null) {
            profile(profiled, rows, runs);
            System.exit(0);
        }
        boolean accelerated = true;
        System.out.printf(Locale.ROOT, "%,d rows per run, medians of %d runs, parallelism 1%n%n", rows, runs);
        System.out.println("| query | stock rows/s | native rows/s | ratio | native nodes |");
        System.out.println("| --- | ---: | ---: | ---: | --- |");
        String letters = System.getProperty("streamfusion.bench.jobs", "");
        for (Query query : QUERIES) {
            if (!letters.isEmpty() && !letters.contains(query.letter())) {
                continue;
            }
            List<String> nodes = nativeNodes(query);
            accelerated &= !nodes.isEmpty();
            double[] seconds = medians(query, rows, runs);
            System.out.printf(
                    Locale.ROOT,
                    "| %s | %,.0f | %,.0f | %.2f | %s |%n",
                    query.title(), rows / seconds[0], rows / seconds[1], seconds[0] / seconds[1], nodes);
        }
        memory(memoryRows);
        // The cluster's threads would keep the JVM alive.
        System.exit(accelerated ? 0 : 1);
    }

    private static void profile(String letter, long rows, int runs) throws Exception {
        for (Query query : QUERIES) {
            for (int run = 0; run < runs && query.title().startsWith(letter); run++) {
                System.out.printf(Locale.ROOT, "%s: %,.0f rows/s%n", query.title(), rows / seconds(Engine.NATIVE, query, rows));
            }
        }
    }

    /** Seconds of stock and native runs, taken in turn after one run of each that is not counted. */
    private static double[] medians(Query query, long rows, int runs) throws Exception {
        Engine[] engines = {Engine.STOCK, Engine.NATIVE};
        List<List<Double>> seconds = List.of(new ArrayList<>(), new ArrayList<>());
        for (int run = -1; run < runs; run++) {
            for (int i = 0; i < engines.length; i++) {
                double time = seconds(engines[i], query, rows);
                if (run >= 0) {
                    seconds.get(i).add(time);
                }
            }
        }
        seconds.forEach(Collections::sort);
        return new double[] {seconds.get(0).get(runs / 2), seconds.get(1).get(runs / 2)};
    }

    private static double seconds(Engine engine, Query query, long rows) throws Exception {
        StatementSet job = job(engine, query, rows);
        System.gc();
        long start = System.nanoTime();
        job.execute().await();
        return (System.nanoTime() - start) / NANOS_PER_SECOND;
    }

    private static List<String> nativeNodes(Query query) {
        return PlanReport.parse(job(Engine.NATIVE, query, 1).explain()).nativeNodes().stream()
                .map(PlanReport.Node::kind)
                .toList();
    }

    private static StatementSet job(Engine engine, Query query, long rows) {
        Configuration configuration = new Configuration();
        engine.select(configuration);
        if (query.bundles() == Bundles.MINI_BATCH) {
            configuration.setString("table.exec.mini-batch.enabled", "true");
            configuration.setString("table.exec.mini-batch.allow-latency", "2 s");
            configuration.setString("table.exec.mini-batch.size", "50000");
        }
        StreamTableEnvironment environment = LocalCluster.tableEnvironment(configuration, 1);
        environment.executeSql("CREATE TABLE bids (" + BidsFactory.COLUMNS + ") WITH ('connector'='"
                + BidsFactory.IDENTIFIER + "', 'rows'='" + rows + "')");
        environment.executeSql("CREATE TABLE nowhere ("
                + SelectSink.of(environment.sqlQuery(query.select())).columns() + ") WITH ('connector'='blackhole')");
        return environment.createStatementSet().addInsertSql("INSERT INTO nowhere " + query.select());
    }

    /** Resident memory of this process after native runs of growing length over the same keys. */
    private static void memory(long rows) throws Exception {
        Query query = QUERIES.get(0);
        long before = residentMib();
        seconds(Engine.NATIVE, query, rows / 10);
        long afterTenth = residentMib();
        seconds(Engine.NATIVE, query, rows);
        long afterAll = residentMib();
        System.out.printf(
                Locale.ROOT,
                "%nresident memory: %,d MiB, after %,d native rows %,d MiB, after %,d more %,d MiB; open handles: %d%n",
                before, rows / 10, afterTenth, rows, afterAll, Native.liveHandles());
    }

    private static long residentMib() throws IOException {
        System.gc();
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmRSS:")) {
                return Long.parseLong(line.replaceAll("[^0-9]", "")) / KIB_PER_MIB;
            }
        }
        throw new IOException("The system does not tell the resident memory");
    }
}
