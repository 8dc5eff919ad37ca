package org.apache.flink.streamfusion.tests.connector;

import java.util.concurrent.atomic.AtomicLong;

/**
 * What came out of a job since {@link #start}: results, and the longest time without one.
 *
 * <p>One thread writes, any thread reads. The clock is read at every sixteenth row, which never shortens a gap.
 */
public final class OutputMeter {
    private static final int ROWS_PER_LOOK = 16;
    private static final long STALL_NANOS = 100_000_000;

    private static volatile long start = System.nanoTime();
    private static final AtomicLong results = new AtomicLong();
    private static final AtomicLong longestGap = new AtomicLong();
    private static final AtomicLong stalled = new AtomicLong();
    private static final AtomicLong last = new AtomicLong(start);

    private static long seenStart = start;
    private static int rowsToLook;
    private static long resultsSoFar;

    private OutputMeter() {}

    /**
     * What was measured.
     *
     * @param results inserts and new values of updates, since the job began
     * @param longestGapNanos the longest time between two outputs, the one that lasts included
     * @param stalledNanos the sum of the gaps of at least 100 ms
     */
    public record Reading(long results, long longestGapNanos, long stalledNanos) {}

    /** Forgets all gaps. */
    public static void start() {
        start = System.nanoTime();
    }

    public static Reading read() {
        long open = System.nanoTime() - Math.max(start, last.get());
        return new Reading(results.get(), Math.max(longestGap.get(), open), stalled.get() + (open < STALL_NANOS ? 0 : open));
    }

    static void row(boolean isResult) {
        if (isResult) {
            resultsSoFar++;
        }
        if (rowsToLook-- <= 0) {
            rowsToLook = ROWS_PER_LOOK - 1;
            look();
        }
    }

    private static void look() {
        long now = System.nanoTime();
        long gap = now - last.get();
        results.lazySet(resultsSoFar);
        last.lazySet(now);
        if (seenStart != start) {
            seenStart = start;
            longestGap.lazySet(0);
            stalled.lazySet(0);
            gap = Math.min(gap, now - seenStart);
        }
        if (gap > longestGap.get()) {
            longestGap.lazySet(gap);
        }
        if (gap >= STALL_NANOS) {
            stalled.lazySet(stalled.get() + gap);
        }
    }
}
