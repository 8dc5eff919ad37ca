package org.apache.flink.streamfusion.runtime;

import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.checkpoint.SnapshotType;
import org.apache.flink.runtime.operators.testutils.MockEnvironment;
import org.apache.flink.runtime.operators.testutils.MockEnvironmentBuilder;
import org.apache.flink.runtime.state.AbstractKeyedStateBackend;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.runtime.state.StateBackend;
import org.apache.flink.runtime.state.storage.JobManagerCheckpointStorage;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.OneInputStreamOperatorTestHarness;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.util.InstantiationUtil;

import java.util.Map;
import java.util.TreeMap;

/** One subtask of {@link GroupBy}, shipped, keyed and opened as in a task. */
final class StatefulHarness extends OneInputStreamOperatorTestHarness<Object, Object> {

    /** Managed memory of the slot unless a test says otherwise. */
    static final long MEMORY_BYTES = 32 << 20;

    /** The most that a file of a checkpoint takes. */
    private static final int CHECKPOINT_BYTES = 256 << 20;

    private static final String UID = "counts";

    final CollectingOutput out = new CollectingOutput(batch -> { });
    private final int maxParallelism;
    private final int parallelism;
    private final int subtask;

    StatefulHarness(StageConfig config) throws Exception {
        this(config, 128, 1, 0);
    }

    StatefulHarness(StageConfig config, int maxParallelism, int parallelism, int subtask) throws Exception {
        this(config, UID, maxParallelism, parallelism, subtask, MEMORY_BYTES);
    }

    StatefulHarness(
            StageConfig config, String uid, int maxParallelism, int parallelism, int subtask, long memoryBytes)
            throws Exception {
        super(
                InstantiationUtil.clone(NativeStageOperatorFactory.of(config).withOperatorUid(uid)),
                environment(maxParallelism, parallelism, subtask, memoryBytes));
        this.maxParallelism = maxParallelism;
        this.parallelism = parallelism;
        this.subtask = subtask;
        setOutputCreator(serializer -> out);
        setCheckpointStorage(new JobManagerCheckpointStorage(CHECKPOINT_BYTES));
        this.config.setStatePartitioner(0, KeyGroupSelector.INSTANCE);
        this.config.setStateKeySerializer(KeyGroupSerializer.INSTANCE);
        this.config.serializeAllConfigs();
    }

    /** Hosts the state in a backend. To be called first. */
    StatefulHarness on(StateBackend backend) {
        setStateBackend(backend);
        return this;
    }

    private static MockEnvironment environment(
            int maxParallelism, int parallelism, int subtask, long memoryBytes) {
        return new MockEnvironmentBuilder()
                .setTaskName("GroupBy")
                .setManagedMemorySize(memoryBytes)
                .setMaxParallelism(maxParallelism)
                .setParallelism(parallelism)
                .setSubtaskIndex(subtask)
                .build();
    }

    /** Restores, if there is something to restore, and opens. */
    StatefulHarness start(OperatorSubtaskState state) throws Exception {
        if (state != null) {
            initializeState(state);
        }
        open();
        return this;
    }

    boolean owns(long key) {
        final int keyGroup = GroupBy.keyGroup(key, maxParallelism);
        return KeyGroupRangeAssignment.computeOperatorIndexForKeyGroup(maxParallelism, parallelism, keyGroup)
                == subtask;
    }

    /** Processes a row if its key belongs to this subtask. */
    void process(long key, long value) throws Exception {
        if (owns(key)) {
            processElement(new StreamRecord<>(GenericRowData.of(key, value)));
        }
    }

    /** What the latest rows of all keys say, by key. Closes the batch that is open. */
    Map<Long, String> results() throws Exception {
        prepareSnapshotPreBarrier(0);
        final Map<Long, String> results = new TreeMap<>();
        for (RowData row : out.rows()) {
            results.put(row.getLong(0), GroupBy.text(row));
        }
        return results;
    }

    /** A snapshot of a kind, written to the end. */
    OperatorSubtaskState snapshot(SnapshotType type) throws Exception {
        prepareSnapshotPreBarrier(1);
        return snapshotWithLocalState(1, 0, type).getJobManagerOwnedState();
    }

    OperatorSubtaskState checkpoint() throws Exception {
        prepareSnapshotPreBarrier(1);
        return snapshot(1, 0);
    }

    /** Bytes of memory that the state was found to take last. */
    long stateBytes() {
        return ((AbstractStageOperator) getOperator()).stateBytes();
    }

    AbstractKeyedStateBackend<Integer> backend() {
        return (AbstractKeyedStateBackend<Integer>) getOperator().<Integer>getKeyedStateBackend();
    }

    /** Closes the operator. Unlike a task, the harness finishes it before, which one that failed refuses. */
    @Override
    public void close() {
        try {
            super.close();
        } catch (Exception e) {
            try {
                getOperator().close();
                getEnvironment().close();
            } catch (Exception closing) {
                throw new IllegalStateException(closing);
            }
        }
    }
}
