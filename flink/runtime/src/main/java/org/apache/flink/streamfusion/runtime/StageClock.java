package org.apache.flink.streamfusion.runtime;

import org.apache.flink.api.common.operators.ProcessingTimeService.ProcessingTimeCallback;
import org.apache.flink.streaming.runtime.tasks.ProcessingTimeService;

/** The processing time of a stage that reads it, with one timer of Flink's for all of its own. */
final class StageClock {

    private final long stage;
    private final ProcessingTimeService service;
    private final ProcessingTimeCallback onTimer;

    /** When the next timer of Flink's fires that was set here; none if that is the largest number. */
    private long firesAt = Long.MAX_VALUE;

    private StageClock(long stage, ProcessingTimeService service, ProcessingTimeCallback onTimer) {
        this.stage = stage;
        this.service = service;
        this.onTimer = onTimer;
    }

    /**
     * Starts the clock of a stage that was just opened, or returns null if the stage reads none.
     *
     * @param onTimer called when the time is to be told, first of all with {@link #fired()}
     */
    static StageClock start(long stage, ProcessingTimeService service, ProcessingTimeCallback onTimer) {
        if (Native.stageTimer(stage) == Native.NO_TIMER) {
            return null;
        }
        final StageClock clock = new StageClock(stage, service, onTimer);
        clock.tell(); // the first time only sets the timers
        return clock;
    }

    /** Tells the stage what time it is. Returns whether something is to be pulled. */
    boolean tell() {
        final boolean answered = Native.stageTime(stage, service.getCurrentProcessingTime());
        final long due = Native.stageTimer(stage);
        if (due != Native.NO_TIMER && due < firesAt) {
            firesAt = due;
            service.registerTimer(due, onTimer);
        }
        return answered;
    }

    /** Takes note that a timer has fired. */
    void fired() {
        firesAt = Long.MAX_VALUE;
    }
}
