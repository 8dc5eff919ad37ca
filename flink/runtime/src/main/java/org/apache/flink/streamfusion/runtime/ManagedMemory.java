package org.apache.flink.streamfusion.runtime;

import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.runtime.memory.MemoryManager;
import org.apache.flink.runtime.memory.MemoryReservationException;

/**
 * Accounts for native memory of an operator in Flink's managed memory: reserves as the use grows, in steps, and releases when it has
 * shrunk for good.
 *
 * <p>Reserved is what the slot still has, not what the weight of the operator comes to: a part that nobody else uses is no reason to
 * fail a job. Used on the task thread; gauges show copies.
 */
final class ManagedMemory implements AutoCloseable {

    static final long STEP_BYTES = 1 << 20;

    static final long STRETCH_BYTES = 32 << 20;

    private static final long MIB = 1 << 20;

    private final MemoryManager manager;
    private final String description;
    private long reserved;
    private volatile long used;
    private volatile long peak;
    private volatile long denied;

    /** Reserves a first step, so that a slot without managed memory shows before any row is lost. */
    static ManagedMemory open(MemoryManager manager, String description, MetricGroup metrics) {
        final ManagedMemory memory = new ManagedMemory(manager, description);
        metrics.gauge("nativeMemoryUsed", (Gauge<Long>) () -> memory.used);
        metrics.gauge("nativeMemoryPeak", (Gauge<Long>) () -> memory.peak);
        metrics.gauge("nativeMemoryDenied", (Gauge<Long>) () -> memory.denied);
        memory.reserve(STEP_BYTES);
        return memory;
    }

    private ManagedMemory(MemoryManager manager, String description) {
        this.manager = manager;
        this.description = description;
    }

    /** Takes note of what is used now. Fails if the slot does not have it. */
    void update(long usedBytes, long peakBytes) {
        used = usedBytes;
        peak = peakBytes;
        final long wanted = Math.max(1, (usedBytes + STEP_BYTES - 1) / STEP_BYTES) * STEP_BYTES;
        if (wanted > reserved) {
            reserve(wanted);
        } else if (reserved - wanted > Math.max(STEP_BYTES, reserved / 4)) {
            // what comes and goes with each checkpoint is kept
            manager.releaseMemory(this, reserved - wanted);
            reserved = wanted;
        }
    }

    /** Takes note of what is used now, without reserving more. */
    void note(long usedBytes, long peakBytes) {
        used = usedBytes;
        peak = peakBytes;
    }

    /** As {@link #update}, but false if the slot does not have it. */
    boolean offer(long usedBytes, long peakBytes) {
        try {
            update(usedBytes, peakBytes);
            return true;
        } catch (NativeException e) {
            return false;
        }
    }

    /**
     * Takes note of what is used by state that has just made room and takes no more for now. It may be above what is reserved by what one
     * batch has added; fails beyond half as much, and at least {@link #STRETCH_BYTES}.
     */
    void stretch(long usedBytes, long peakBytes) {
        note(usedBytes, peakBytes);
        if (usedBytes > reserved + Math.max(STRETCH_BYTES, reserved / 2)) {
            update(usedBytes, peakBytes);
        }
    }

    /** What was used when somebody looked last. */
    long used() {
        return used;
    }

    private void reserve(long wanted) {
        try {
            manager.reserveMemory(this, wanted - reserved);
            reserved = wanted;
        } catch (MemoryReservationException e) {
            denied++;
            throw new NativeException(
                    String.format(
                            "%s needs %d MiB of managed memory for its state and open bundles. It has %d MiB, and of the %d MiB of its slot %d MiB are"
                                    + " left. State that a snapshot in flight keeps, and that was written since, counts as well. Raise taskmanager.memory.managed.size or taskmanager.memory.managed.fraction, run the"
                                    + " job with a higher parallelism, or give its task managers fewer slots.",
                            description,
                            wanted / MIB,
                            reserved / MIB,
                            manager.getMemorySize() / MIB,
                            manager.availableMemory() / MIB),
                    e);
        }
    }

    /** Gives everything back. */
    @Override
    public void close() {
        reserved = 0;
        used = 0;
        if (!manager.isShutdown()) {
            manager.releaseAllMemory(this);
        }
    }
}
