package org.apache.flink.streamfusion.tests;

import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Metric;
import org.apache.flink.metrics.MetricConfig;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.reporter.MetricReporter;

import java.util.Map;
import java.util.Queue;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;

/** How many rows the operators of the last job of this JVM have dropped because they came too late, by the names of Flink's metrics. */
final class LateRows implements MetricReporter {
    /** Of numLateRecordsDropped, and of the same for the left and for the right input. */
    private static final String NAME = "umLateRecordsDropped";

    private static final Queue<Seen> COUNTERS = new ConcurrentLinkedQueue<>();

    private record Seen(String name, Counter counter) {}

    /** Forgets the counters of earlier jobs. */
    static void reset() {
        COUNTERS.clear();
    }

    /** The sums over all operators, but for those that are zero. */
    static Map<String, Long> counts() {
        Map<String, Long> counts = new TreeMap<>();
        for (Seen seen : COUNTERS) {
            long count = seen.counter().getCount();
            if (count > 0) {
                counts.merge(seen.name(), count, Long::sum);
            }
        }
        return counts;
    }

    @Override
    public void open(MetricConfig config) {}

    @Override
    public void close() {}

    @Override
    public void notifyOfAddedMetric(Metric metric, String name, MetricGroup group) {
        if (metric instanceof Counter counter && name.endsWith(NAME)) {
            COUNTERS.add(new Seen(name, counter));
        }
    }

    @Override
    public void notifyOfRemovedMetric(Metric metric, String name, MetricGroup group) {}
}
