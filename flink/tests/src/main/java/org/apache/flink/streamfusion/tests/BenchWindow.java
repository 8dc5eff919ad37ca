package org.apache.flink.streamfusion.tests;

import org.apache.flink.streamfusion.tests.JobBench.Query;
import org.apache.flink.streamfusion.tests.connector.BidsFactory;

import java.util.List;
import java.util.Map;

/**
 * Jobs over windows of event time, stock Flink and native in turn in one JVM: rows per second and their ratio.
 *
 * <p>A source of prepared rows, watermarks, a shuffle at parallelism 2, and COUNT and SUM by 100,000 auctions over windows. There are
 * 100,000 bids per second of event time, 10 per auction and window of 10 seconds, and none is late.
 *
 * <p>Arguments: rows per run (default 5,000,000), runs (5).
 */
public final class BenchWindow {
    private static final int BIDS_PER_MILLISECOND = 100;

    private static final List<Query> QUERIES =
            List.of(
                    query("a: TUMBLE of 10 s", "TUMBLE(TABLE bids, DESCRIPTOR(date_time), INTERVAL '10' SECOND)"),
                    query(
                            "b: HOP of 10 s by 2 s",
                            "HOP(TABLE bids, DESCRIPTOR(date_time), INTERVAL '2' SECOND, INTERVAL '10' SECOND)"),
                    query(
                            "c: SESSION with a gap of 2 s",
                            "SESSION(TABLE bids PARTITION BY auction, DESCRIPTOR(date_time), INTERVAL '2' SECOND)"));

    private BenchWindow() {}

    private static Query query(String title, String windows) {
        return new Query(
                title,
                2,
                Map.of(),
                Map.of("rows-per-millisecond", Integer.toString(BIDS_PER_MILLISECOND)),
                BidsFactory.COLUMNS + ", WATERMARK FOR date_time AS date_time - INTERVAL '4' SECOND",
                "SELECT auction, window_start, window_end, COUNT(*) AS n, SUM(price) AS s FROM TABLE("
                        + windows
                        + ") GROUP BY auction, window_start, window_end");
    }

    public static void main(String[] arguments) throws Exception {
        long rows = arguments.length > 0 ? Long.parseLong(arguments[0]) : 5_000_000L;
        int runs = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 5;
        JobBench.prepare();
        boolean accelerated = JobBench.compare(QUERIES, rows, runs);
        // The cluster's threads would keep the JVM alive.
        System.exit(accelerated ? 0 : 1);
    }
}
