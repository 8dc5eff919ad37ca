package org.apache.flink.streamfusion.runtime;

import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.operators.coordination.OperatorCoordinator;
import org.apache.flink.runtime.operators.coordination.OperatorEvent;

import java.util.concurrent.CompletableFuture;

/**
 * Refuses every checkpoint, savepoint and restore of a job with native state, which is in none of them.
 *
 * <p>It sits in the job manager, because Flink asks coordinators before it tells any task. So a savepoint fails, stop with
 * savepoint included, and no source has stopped and no state is lost; were a task to refuse, sources would have stopped already.
 */
final class SnapshotRefusal implements OperatorCoordinator {

    /** What a user can do about it. */
    static final String REMEDY =
            "Native state is in no checkpoint or savepoint yet. Enable checkpointing before the job is planned, which keeps"
                    + " stateful nodes on Flink, or set 'streamfusion.enabled' = 'false'.";

    private final String description;

    private SnapshotRefusal(String description) {
        this.description = description;
    }

    @Override
    public void checkpointCoordinator(long checkpointId, CompletableFuture<byte[]> result) {
        result.completeExceptionally(
                new NativeException(description + " has native state and takes part in no snapshot. " + REMEDY));
    }

    @Override
    public void resetToCheckpoint(long checkpointId, byte[] checkpointData) {
        if (checkpointId != NO_CHECKPOINT) {
            throw new NativeException(description + " has native state and cannot be restored. " + REMEDY);
        }
    }

    @Override
    public void start() {}

    @Override
    public void close() {}

    @Override
    public void handleEventFromOperator(int subtask, int attemptNumber, OperatorEvent event) {}

    @Override
    public void notifyCheckpointComplete(long checkpointId) {}

    @Override
    public void subtaskReset(int subtask, long checkpointId) {}

    @Override
    public void executionAttemptFailed(int subtask, int attemptNumber, Throwable reason) {}

    @Override
    public void executionAttemptReady(int subtask, int attemptNumber, SubtaskGateway gateway) {}

    /** Shipped to the job manager. */
    record Provider(OperatorID operatorId, String description) implements OperatorCoordinator.Provider {

        private static final long serialVersionUID = 1L;

        @Override
        public OperatorID getOperatorId() {
            return operatorId;
        }

        @Override
        public OperatorCoordinator create(Context context) {
            return new SnapshotRefusal(description);
        }
    }
}
