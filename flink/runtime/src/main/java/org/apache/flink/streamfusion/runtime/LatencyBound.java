package org.apache.flink.streamfusion.runtime;

import org.apache.flink.streaming.runtime.tasks.ProcessingTimeService;
import org.apache.flink.util.function.ThrowingRunnable;

import java.util.function.BooleanSupplier;

/** Lets rows that wait in front of a stage go after a while, if nothing has until then. Used by the task thread alone. */
final class LatencyBound {
    private final ProcessingTimeService time;
    private final BooleanSupplier rowsWait;
    private final ThrowingRunnable<Exception> flush;

    private long deadline;
    private boolean timerPending;

    LatencyBound(ProcessingTimeService time, BooleanSupplier rowsWait, ThrowingRunnable<Exception> flush) {
        this.time = time;
        this.rowsWait = rowsWait;
        this.flush = flush;
    }

    /** The first row waits from now on, for so long at most. */
    void start(long latencyMs) {
        deadline = time.getCurrentProcessingTime() + latencyMs;
        if (!timerPending) {
            registerTimer();
        }
    }

    private void registerTimer() {
        timerPending = true;
        time.registerTimer(deadline, this::onTimer);
    }

    /** One timer serves many batches: it fires for a batch that has long gone and is set again for the current one. */
    private void onTimer(long timestamp) throws Exception {
        timerPending = false;
        if (!rowsWait.getAsBoolean()) {
            return;
        }
        if (deadline <= timestamp) {
            flush.run();
        } else {
            registerTimer();
        }
    }
}
