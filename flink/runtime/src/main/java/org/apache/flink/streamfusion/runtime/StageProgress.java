package org.apache.flink.streamfusion.runtime;

import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.OperatorStateStore;
import org.apache.flink.api.common.typeutils.base.LongSerializer;

import java.util.List;

/**
 * How far event time had come for a stage, in checkpoints: what was late before a restore is late behind it. As in WindowAggOperator,
 * every subtask knows that of all others and begins with the least.
 */
final class StageProgress {

    private static final ListStateDescriptor<Long> WATERMARK =
            new ListStateDescriptor<>("watermark", LongSerializer.INSTANCE);

    private final long stage;
    private final ListState<Long> watermarks;

    private StageProgress(long stage, ListState<Long> watermarks) {
        this.stage = stage;
        this.watermarks = watermarks;
    }

    /** The progress of a stage that was just opened, or null if no operator of it remembers any. */
    static StageProgress of(long stage, OperatorStateStore store) throws Exception {
        return Native.stageProgress(stage) == Native.NO_PROGRESS
                ? null
                : new StageProgress(stage, store.getUnionListState(WATERMARK));
    }

    /** Gives the stage what a snapshot has. */
    void restore() throws Exception {
        long least = Long.MAX_VALUE;
        for (long watermark : watermarks.get()) {
            least = Math.min(least, watermark);
        }
        if (least != Long.MAX_VALUE) {
            Native.stageRestoreProgress(stage, least);
        }
    }

    /** Puts it into the snapshot that is being taken. */
    void snapshot() throws Exception {
        watermarks.update(List.of(Native.stageProgress(stage)));
    }
}
