package org.apache.flink.streamfusion.tests;

import org.apache.flink.streamfusion.tests.JobBench.Query;
import org.apache.flink.streamfusion.tests.connector.BidsFactory;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * Jobs with their state in RocksDB, stock Flink and native in turn in one JVM: rows per second and their ratio.
 *
 * <p>At parallelism 1, with incremental checkpoints every 5 s to the disk. Rows lie ready in memory. Each run begins without state.
 *
 * <p>Arguments: rows per run (default 3,000,000), runs (3).
 */
public final class BenchRocksDb {
    private static final long MILLION = 1_000_000;

    private static final String COUNTS = "SELECT auction, COUNT(*) AS n, SUM(price) AS s, MAX(price) AS m FROM bids GROUP BY auction";

    private static final String LAST_BIDS = "(SELECT auction, bidder, price FROM (SELECT auction, bidder, price, ROW_NUMBER() OVER "
            + "(PARTITION BY auction ORDER BY PROCTIME() DESC) AS r FROM bids %s) WHERE r = 1)";

    private BenchRocksDb() {}

    private static List<Query> queries(Path checkpoints) {
        String last = "SELECT * FROM " + String.format(Locale.ROOT, LAST_BIDS, "");
        String join = "SELECT a.auction, a.bidder, b.price FROM "
                + String.format(Locale.ROOT, LAST_BIDS, "WHERE price < 1000000") + " a JOIN "
                + String.format(Locale.ROOT, LAST_BIDS, "WHERE price >= 1000000") + " b ON a.auction = b.auction";
        String top = "SELECT auction, bidder, price, r FROM (SELECT auction, bidder, price, ROW_NUMBER() OVER "
                + "(PARTITION BY auction ORDER BY price DESC) AS r FROM bids) WHERE r <= 10";
        return List.of(
                query("a: GROUP BY 1 M keys", checkpoints, MILLION, false, false, COUNTS),
                query("b: as a, with mini-batch", checkpoints, MILLION, false, true, COUNTS),
                query("c: GROUP BY 1 M keys, skewed", checkpoints, MILLION, true, false, COUNTS),
                query("d: as c, with mini-batch", checkpoints, MILLION, true, true, COUNTS),
                query("e: GROUP BY 10 M keys", checkpoints, 10 * MILLION, false, false, COUNTS),
                query("f: as e, with mini-batch", checkpoints, 10 * MILLION, false, true, COUNTS),
                query("g: last bid of each of 1 M keys", checkpoints, MILLION, false, false, last),
                query("h: as g, with mini-batch", checkpoints, MILLION, false, true, last),
                query("i: two last bids joined, 1 M keys", checkpoints, MILLION, false, false, join),
                query("j: as i, with mini-batch", checkpoints, MILLION, false, true, join),
                query("k: 10 highest bids of each of 1 M keys", checkpoints, MILLION, false, false, top),
                query("l: as k, with mini-batch", checkpoints, MILLION, false, true, top));
    }

    private static Query query(
            String title, Path checkpoints, long keys, boolean skew, boolean miniBatch, String select) {
        Map<String, String> options = new HashMap<>();
        options.put("state.backend.type", "rocksdb");
        options.put("execution.checkpointing.incremental", "true");
        options.put("execution.checkpointing.interval", "5 s");
        options.put("execution.checkpointing.dir", checkpoints.toUri().toString());
        if (miniBatch) {
            options.put("table.exec.mini-batch.enabled", "true");
            options.put("table.exec.mini-batch.allow-latency", "2 s");
            options.put("table.exec.mini-batch.size", "50000");
        }
        return new Query(
                title,
                1,
                options,
                Map.of("auctions", Long.toString(keys), "skew", Boolean.toString(skew)),
                BidsFactory.COLUMNS,
                select);
    }

    public static void main(String[] arguments) throws Exception {
        long rows = arguments.length > 0 ? Long.parseLong(arguments[0]) : 3_000_000L;
        int runs = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 3;
        JobBench.prepare();
        Path checkpoints = Files.createTempDirectory("bench-rocksdb");
        boolean accelerated;
        try {
            accelerated = JobBench.compare(queries(checkpoints), rows, runs);
        } finally {
            BenchJvm.delete(checkpoints);
        }
        // The cluster's threads would keep the JVM alive.
        System.exit(accelerated ? 0 : 1);
    }
}
