package org.apache.flink.streamfusion.tests;

import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Metric;
import org.apache.flink.metrics.MetricConfig;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.reporter.MetricReporter;

import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;

/** What the operators of the jobs of this JVM have counted since {@link #reset}, by the names of the metrics. */
final class JobCounters implements MetricReporter {
    /** Of numLateRecordsDropped, and of the same for the left and for the right input. */
    private static final String LATE_ROWS = "umLateRecordsDropped";

    private static final String BY_HANDLE = "nativeBatchesByHandle";

    private static final List<String> KEPT = List.of(LATE_ROWS, BY_HANDLE);

    private static final Queue<Seen> COUNTERS = new ConcurrentLinkedQueue<>();

    private record Seen(String name, Counter counter) {}

    /** Forgets the counters of earlier jobs. */
    static void reset() {
        COUNTERS.clear();
    }

    /** How many rows came too late, as sums over all operators; those that are zero are left out. */
    static Map<String, Long> lateRows() {
        return sums(LATE_ROWS);
    }

    /** How many batches went to another task without being written. */
    static long batchesByHandle() {
        return sums(BY_HANDLE).getOrDefault(BY_HANDLE, 0L);
    }

    private static Map<String, Long> sums(String end) {
        Map<String, Long> sums = new TreeMap<>();
        for (Seen seen : COUNTERS) {
            long count = seen.counter().getCount();
            if (count > 0 && seen.name().endsWith(end)) {
                sums.merge(seen.name(), count, Long::sum);
            }
        }
        return sums;
    }

    @Override
    public void open(MetricConfig config) {}

    @Override
    public void close() {}

    @Override
    public void notifyOfAddedMetric(Metric metric, String name, MetricGroup group) {
        if (metric instanceof Counter counter && KEPT.stream().anyMatch(name::endsWith)) {
            COUNTERS.add(new Seen(name, counter));
        }
    }

    @Override
    public void notifyOfRemovedMetric(Metric metric, String name, MetricGroup group) {}
}
