package org.apache.flink.streamfusion.runtime;

import org.apache.flink.api.common.operators.ProcessingTimeService.ProcessingTimeCallback;
import org.apache.flink.runtime.metrics.groups.TaskIOMetricGroup;
import org.apache.flink.streaming.api.operators.util.PausableRelativeClock;
import org.apache.flink.streaming.runtime.tasks.ProcessingTimeService;

/**
 * The processing time of a stage that reads it, with one timer of Flink's for all of its own; and beside it a clock that stands
 * still under back pressure, as idleness is measured.
 */
final class StageClock implements AutoCloseable {

    private final long stage;
    private final ProcessingTimeService service;
    private final ProcessingTimeCallback onTimer;
    private final TaskIOMetricGroup backPressure;
    private final PausableRelativeClock activity;

    /** When the next timer of Flink's fires that was set here; none if that is the largest number. */
    private long firesAt = Long.MAX_VALUE;

    private StageClock(
            long stage, ProcessingTimeService service, TaskIOMetricGroup backPressure, ProcessingTimeCallback onTimer) {
        this.stage = stage;
        this.service = service;
        this.onTimer = onTimer;
        this.backPressure = backPressure;
        this.activity = new PausableRelativeClock(service.getClock());
        backPressure.registerBackPressureListener(activity);
    }

    /**
     * Starts the clock of a stage that was just opened, or returns null if the stage reads none.
     *
     * @param backPressure of the task
     * @param onTimer called when the time is to be told, first of all with {@link #fired()}
     */
    static StageClock start(
            long stage, ProcessingTimeService service, TaskIOMetricGroup backPressure, ProcessingTimeCallback onTimer) {
        if (Native.stageTimer(stage) == Native.NO_TIMER) {
            return null;
        }
        final StageClock clock = new StageClock(stage, service, backPressure, onTimer);
        clock.tell(); // the first time only sets the timers
        return clock;
    }

    /** Whether the timer that was set here should have fired. */
    boolean isDue() {
        return firesAt <= service.getCurrentProcessingTime();
    }

    /** Tells the stage what time it is. Returns whether there may be something to pull. */
    boolean tell() {
        final boolean answered =
                Native.stageTime(stage, service.getCurrentProcessingTime(), activity.relativeTimeMillis());
        arm();
        return answered;
    }

    /** Sets a timer of Flink's if the stage now has one that is due before. */
    void arm() {
        final long due = Native.stageTimer(stage);
        if (due != Native.NO_TIMER && due < firesAt) { // the largest number stands for no timer yet
            firesAt = due;
            service.registerTimer(due, onTimer);
        }
    }

    /** Takes note that a timer has fired. */
    void fired() {
        firesAt = Long.MAX_VALUE;
    }

    @Override
    public void close() {
        backPressure.unregisterBackPressureListener(activity);
    }
}
