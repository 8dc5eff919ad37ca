package org.apache.flink.streamfusion.runtime;

import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.Meter;
import org.apache.flink.metrics.MeterView;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.streaming.runtime.tasks.ProcessingTimeService;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Rows that a stage drops, as metrics of its operator under Flink's names. Where rows can be late there is also how far behind the
 * clock watermarks are; OVER aggregates, of which Flink shows the number of late rows alone, have this and the rate too.
 */
final class DroppedRows {

    private static final String WATERMARK_LATENCY = "watermarkLatency";

    /** In the order in which the library counts. */
    private enum Reason {
        LATE("numLateRecordsDropped", "lateRecordsDroppedRate"),
        LEFT_LATE("leftNumLateRecordsDropped", "leftLateRecordsDroppedRate"),
        RIGHT_LATE("rightNumLateRecordsDropped", "rightLateRecordsDroppedRate"),
        NULL_ROW_TIME("numNullRowTimeRecordsDropped", null);

        private final String counter;
        private final String rate;

        Reason(String counter, String rate) {
            this.counter = counter;
            this.rate = rate;
        }
    }

    /** One metric with its place among what the library counts. */
    private record Count(int place, Counter counter, Meter rate) {

        void update(long total) {
            final long more = total - counter.getCount();
            if (more > 0) {
                if (rate == null) {
                    counter.inc(more);
                } else {
                    rate.markEvent(more); // which counts as well
                }
            }
        }
    }

    private final long stage;
    private final List<Count> counts = new ArrayList<>();

    /** Read by reporters. */
    private volatile long watermark = Long.MIN_VALUE;

    private DroppedRows(long stage) {
        this.stage = stage;
    }

    /** The metrics of a stage that was just opened, or null if it drops no rows. */
    static DroppedRows of(long stage, MetricGroup group, ProcessingTimeService clock) {
        final long[] totals = Native.stageDroppedRows(stage);
        if (Arrays.stream(totals).allMatch(total -> total < 0)) {
            return null;
        }
        final DroppedRows dropped = new DroppedRows(stage);
        boolean late = false;
        for (Reason reason : Reason.values()) {
            if (totals[reason.ordinal()] >= 0) {
                final Counter counter = group.counter(reason.counter);
                final Meter rate = reason.rate == null ? null : group.meter(reason.rate, new MeterView(counter));
                dropped.counts.add(new Count(reason.ordinal(), counter, rate));
                late |= reason.rate != null;
            }
        }
        if (late) {
            group.gauge(WATERMARK_LATENCY, (Gauge<Long>) () -> dropped.latencyMs(clock.getCurrentProcessingTime()));
        }
        return dropped;
    }

    private long latencyMs(long nowMs) {
        final long reached = watermark;
        return reached < 0 ? 0 : nowMs - reached;
    }

    /** Takes note of a watermark that the stage takes, or has taken before it was restored. */
    void watermark(long watermarkMs) {
        watermark = watermarkMs;
    }

    /** To be called whenever the stage may have dropped rows. */
    void update() {
        final long[] totals = Native.stageDroppedRows(stage);
        for (Count count : counts) {
            count.update(totals[count.place]);
        }
    }
}
