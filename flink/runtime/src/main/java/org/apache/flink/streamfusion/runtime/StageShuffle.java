package org.apache.flink.streamfusion.runtime;

import org.apache.flink.api.common.TaskInfo;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

import java.util.List;
import java.util.UUID;

/**
 * How batches travel to and from a stage, and what of that is in snapshots.
 *
 * <p>The epoch of a task is one more than the checkpoint it was restored from, or 0. What a checkpoint has stored on its way is of an
 * epoch before. Flink tells the checkpoint to every task of a vertex that had any state in it; so that this includes tasks
 * that would have none, each keeps a mark.
 */
final class StageShuffle {

    private static final ListStateDescriptor<byte[]> MARK =
            new ListStateDescriptor<>("__streamfusion_shuffle_v1", BytePrimitiveArraySerializer.INSTANCE);

    private static final ObjectMapper JSON = new ObjectMapper();

    private final StageConfig config;
    private final KeyGroupRange keyGroups;
    private final long epoch;

    /** Null where the input is no fragments. */
    private final PendingFragments pending;

    private StageShuffle(StageConfig config, KeyGroupRange keyGroups, long epoch, PendingFragments pending) {
        this.config = config;
        this.keyGroups = keyGroups;
        this.epoch = epoch;
        this.pending = pending;
    }

    /** Reads what a snapshot has for this task. */
    static StageShuffle of(StageConfig config, TaskInfo task, StateInitializationContext context) throws Exception {
        final KeyGroupRange keyGroups =
                KeyGroupRangeAssignment.computeKeyGroupRangeForOperatorIndex(
                        task.getMaxNumberOfParallelSubtasks(),
                        task.getNumberOfParallelSubtasks(),
                        task.getIndexOfThisSubtask());
        final long epoch =
                context.getRestoredCheckpointId().isPresent() ? context.getRestoredCheckpointId().getAsLong() + 1 : 0;
        if (config.receivesFragments() || config.fragmentOutput) {
            context.getOperatorStateStore().getListState(MARK).update(List.of(new byte[] {1}));
        }
        final PendingFragments pending =
                config.receivesFragments() ? PendingFragments.of(config, context, keyGroups) : null;
        return new StageShuffle(config, keyGroups, epoch, pending);
    }

    /** Whether small batches of an input wait for more rows. */
    boolean gathers(int input) {
        return config.input(input).isBatches() && config.latencyMs != 0;
    }

    /** Tells a stage that was just opened, and gives it what was restored. Returns whether there was anything. */
    boolean open(long stage) {
        final ObjectNode json = JSON.createObjectNode();
        describe(0, json);
        if (config.inputCount() > 1) {
            describe(1, json.putObject("second"));
        }
        if (config.fragmentOutput) {
            json.putObject("sender")
                    .put("epoch", epoch)
                    .put("attempt", UUID.randomUUID().getLeastSignificantBits() & Long.MAX_VALUE);
        }
        Native.stageShuffle(stage, json.toString());
        return pending != null && pending.restore(stage);
    }

    private void describe(int input, ObjectNode json) {
        json.put("gatherRows", gathers(input) ? config.maxBatchRows : 0);
        if (config.input(input).fragments()) {
            json.putObject("receiver")
                    .put("epoch", epoch)
                    .put("firstKeyGroup", keyGroups.getStartKeyGroup())
                    .put("lastKeyGroup", keyGroups.getEndKeyGroup());
        }
    }

    /** Whether a fragment of an input misses siblings, so that nothing may pass it. */
    boolean isPending(long stage, int input) {
        return config.input(input).fragments() && Native.stageIsPending(stage, input);
    }

    /** Adds fragments that miss siblings to a snapshot. */
    void snapshot(long stage, StateSnapshotContext context, PendingFragments.RawKeyedState raw) throws Exception {
        if (pending != null) {
            pending.snapshot(stage, context, raw);
        }
    }
}
