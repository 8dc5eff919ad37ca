package org.apache.flink.streamfusion.tests;

import org.apache.flink.streamfusion.runtime.Native;
import org.apache.flink.streamfusion.tests.JobBench.Query;
import org.apache.flink.streamfusion.tests.connector.BidsFactory;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * Whole jobs over bids, stock Flink and native in turn in one JVM: rows per second and their ratio.
 *
 * <p>At parallelism 1. Answers two questions: how much sooner a job ends, and whether native memory stays flat over a long run with a
 * fixed key set.
 *
 * <p>Arguments: rows per run (default 5,000,000), runs (5), rows of the memory run (10,000,000).
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
            query("a: COUNT, SUM, MAX by 100,000 auctions", Bundles.NONE, BY_AUCTION),
            query(
                    "b: 3 filtered distinct counts by 100 channels",
                    Bundles.NONE,
                    "SELECT channel, "
                            + "COUNT(DISTINCT bidder) FILTER (WHERE price < 10000) AS low, "
                            + "COUNT(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS middle, "
                            + "COUNT(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS high "
                            + "FROM bids GROUP BY channel"),
            query(
                    "c: Calc with 6 expressions, then by 100,000 auctions",
                    Bundles.NONE,
                    "SELECT auction, SUM(a) AS a, MAX(b) AS b, SUM(c) AS c, MAX(d) AS d, MAX(e) AS e, MIN(f) AS f FROM ("
                            + INNER_CALC + ") GROUP BY auction"),
            query("d: as a, with mini-batch", Bundles.MINI_BATCH, BY_AUCTION),
            query(
                    "e: last bid of each auction by processing time, with mini-batch",
                    Bundles.MINI_BATCH,
                    "SELECT auction, bidder, price FROM (SELECT auction, bidder, price, ROW_NUMBER() OVER "
                            + "(PARTITION BY auction ORDER BY PROCTIME() DESC) AS r FROM bids) WHERE r = 1"),
            query(
                    "f: 10 highest bids of each auction",
                    Bundles.NONE,
                    "SELECT auction, bidder, price, r FROM (SELECT auction, bidder, price, ROW_NUMBER() OVER "
                            + "(PARTITION BY auction ORDER BY price DESC) AS r FROM bids) WHERE r <= 10"),
            query(
                    "g: counts joined with highest prices, by auction, with mini-batch",
                    Bundles.MINI_BATCH,
                    "SELECT a.auction, a.n, b.m FROM (SELECT auction, COUNT(*) AS n FROM bids GROUP BY auction) a JOIN "
                            + "(SELECT auction, MAX(price) AS m FROM bids WHERE price > 100 GROUP BY auction) b "
                            + "ON a.auction = b.auction"));

    private static final int KIB_PER_MIB = 1024;

    private BenchJob() {}

    /** Whether Flink emits once per bundle of rows. */
    private enum Bundles {
        NONE,
        MINI_BATCH
    }

    public static void main(String[] arguments) throws Exception {
        long rows = arguments.length > 0 ? Long.parseLong(arguments[0]) : 5_000_000L;
        int runs = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 5;
        long memoryRows = arguments.length > 2 ? Long.parseLong(arguments[2]) : 10_000_000L;

        JobBench.prepare();
        boolean accelerated = JobBench.compare(QUERIES, rows, runs);
        memory(memoryRows);
        // The cluster's threads would keep the JVM alive.
        System.exit(accelerated ? 0 : 1);
    }

    private static Query query(String title, Bundles bundles, String select) {
        Map<String, String> options =
                bundles == Bundles.NONE
                        ? Map.of()
                        : Map.of(
                                "table.exec.mini-batch.enabled", "true",
                                "table.exec.mini-batch.allow-latency", "2 s",
                                "table.exec.mini-batch.size", "50000");
        return new Query(title, 1, options, Map.of(), BidsFactory.COLUMNS, select);
    }

    /** Resident memory of this process after native runs of growing length over the same keys. */
    private static void memory(long rows) throws Exception {
        Query query = QUERIES.get(0);
        long before = residentMib();
        JobBench.seconds(Engine.NATIVE, query, rows / 10);
        long afterTenth = residentMib();
        JobBench.seconds(Engine.NATIVE, query, rows);
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
