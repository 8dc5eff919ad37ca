package org.apache.flink.streamfusion.runtime;

import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.core.fs.CloseableRegistry;
import org.apache.flink.runtime.checkpoint.CheckpointOptions;
import org.apache.flink.runtime.checkpoint.SavepointType;
import org.apache.flink.runtime.execution.SuppressRestartsException;
import org.apache.flink.runtime.state.AbstractKeyedStateBackend;
import org.apache.flink.runtime.state.CheckpointStreamFactory;
import org.apache.flink.runtime.state.CheckpointStreamWithResultProvider;
import org.apache.flink.runtime.state.CheckpointedStateScope;
import org.apache.flink.runtime.state.FullSnapshotAsyncWriter;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.KeyedStateBackend;
import org.apache.flink.runtime.state.KeyedStateHandle;
import org.apache.flink.runtime.state.SnapshotExecutionType;
import org.apache.flink.runtime.state.SnapshotResult;
import org.apache.flink.runtime.state.SnapshotStrategy;
import org.apache.flink.runtime.state.SnapshotStrategyRunner;
import org.apache.flink.runtime.state.StateUtil;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OperatorSnapshotFutures;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.RunnableFuture;

/**
 * The keyed state of a native stage between Flink and the library: which keys it has, how it gets into snapshots and back, and what
 * memory it may take.
 *
 * <p>Flink's keyed backend hosts it. In RocksDB it may lie in a column family of the backend ({@link RocksDbTable}), which Flink then checkpoints as
 * its own. Otherwise the backend holds nothing while the job runs, and its snapshot is replaced by one of the native state, in the
 * canonical form of Flink whatever kind of snapshot was asked for. A canonical savepoint is made so in any case. The backend reads that form
 * itself when a job is restored, and the library takes it from there.
 */
final class NativeState implements AutoCloseable {

    /** Backends that read Flink's canonical form and show what they have read. */
    private static final Set<String> HOSTS = Set.of("hashmap", "rocksdb");

    private static final String ROCKSDB = "rocksdb";

    private static final ObjectMapper JSON = new ObjectMapper();

    private final String description;
    private final String operatorId;
    private final AbstractKeyedStateBackend<Integer> backend;
    private final CloseableRegistry cancelables;
    private final ManagedMemory memory;
    private final long cacheBytes;
    private long stage;

    /** Where the state is kept if it is not in memory alone, else null. */
    private RocksDbTable table;

    /** Bytes in memory above which state in RocksDB has to make room. */
    private long ceiling;

    private NativeState(
            String description,
            String operatorId,
            AbstractKeyedStateBackend<Integer> backend,
            CloseableRegistry cancelables,
            ManagedMemory memory,
            long cacheBytes) {
        this.description = description;
        this.operatorId = operatorId;
        this.backend = backend;
        this.cancelables = cancelables;
        this.memory = memory;
        this.cacheBytes = cacheBytes;
    }

    /** The state of an operator whose backend is there. Without a uid it is known by the id that Flink gave the operator. */
    static NativeState of(AbstractStreamOperator<?> operator, StageConfig config, String operatorUid) {
        return new NativeState(
                config.description,
                operatorUid == null ? operator.getOperatorID().toHexString() : operatorUid,
                host(config.description, operator.getKeyedStateBackend()),
                operator.getContainingTask().getCancelables(),
                ManagedMemory.open(
                        operator.getContainingTask().getEnvironment().getMemoryManager(),
                        config.description,
                        operator.getMetricGroup()),
                config.stateCacheBytes);
    }

    private static AbstractKeyedStateBackend<Integer> host(String description, KeyedStateBackend<Integer> backend) {
        // One that writes a log of changes is none of them, even if it writes to one.
        if (backend instanceof AbstractKeyedStateBackend<Integer> host
                && HOSTS.contains(backend.getBackendTypeIdentifier())) {
            return host;
        }
        // another attempt would end here too
        throw new SuppressRestartsException(
                new NativeException(
                        description
                                + " has native state, which needs the state backend hashmap or rocksdb and no state changelog. It got "
                                + (backend == null ? "no backend at all" : "a " + backend.getClass().getSimpleName())
                                + ". Set state.backend.type and state.changelog.enabled in the job, so that its plan can heed them,"
                                + " or set 'streamfusion.enabled' = 'false'."));
    }

    /** What the library must know when it opens the stage. */
    String parameters() {
        final KeyGroupRange keyGroups = backend.getKeyGroupRange();
        final ObjectNode json = JSON.createObjectNode();
        json.put("operatorId", operatorId);
        json.put("maxParallelism", backend.getNumberOfKeyGroups());
        json.put("firstKeyGroup", keyGroups.getStartKeyGroup());
        json.put("lastKeyGroup", keyGroups.getEndKeyGroup());
        json.put("backend", backend.getBackendTypeIdentifier());
        return json.toString();
    }

    /** Begins to work on a stage that has been opened with {@link #parameters()}. */
    void open(long stage) throws Exception {
        this.stage = stage;
        if (ROCKSDB.equals(backend.getBackendTypeIdentifier())) {
            table = RocksDbTable.open(description, backend, stage);
        }
    }

    /** Takes over what the backend has restored. The key context is afterwards what it was before, also if it was none. */
    void restore() throws Exception {
        final Integer key = backend.getCurrentKey();
        final int keyGroup = backend.getCurrentKeyGroupIndex();
        try {
            for (int group : backend.getKeyGroupRange()) {
                backend.setCurrentKeyAndKeyGroup(group, group);
                restore(group);
            }
        } finally {
            if (key != null) {
                backend.setCurrentKeyAndKeyGroup(key, keyGroup);
            } else {
                // a backend takes no key that is null, its context does
                backend.getKeyContext().setCurrentKey(null);
                if (backend.getKeyGroupRange().contains(keyGroup)) {
                    backend.getKeyContext().setCurrentKeyGroupIndex(keyGroup);
                }
            }
        }
    }

    private void restore(int keyGroup) throws Exception {
        final byte[] header = ReservedStates.take(backend, 0);
        final List<byte[]> chunks = new ArrayList<>();
        // one state more than there are chunks: whether too many are there is for the library to say, as is a missing header
        for (byte[] chunk = ReservedStates.take(backend, 1);
                chunk != null;
                chunk = ReservedStates.take(backend, chunks.size() + 1)) {
            chunks.add(chunk);
        }
        if (header != null || !chunks.isEmpty()) {
            Native.stageRestore(
                    stage, keyGroup, header == null ? new byte[0] : header, chunks.toArray(new byte[0][]));
            accountForMemory();
        }
    }

    /** To be called before the backend takes its snapshot, which then has what is kept in its database. */
    void writeBack(CheckpointOptions options) {
        if (table != null && !isCanonical(options)) {
            Native.stageWriteBack(stage);
        }
    }

    private static boolean isCanonical(CheckpointOptions options) {
        return options.getCheckpointType() instanceof SavepointType savepoint
                && savepoint.getFormatType() == SavepointFormatType.CANONICAL;
    }

    /** Replaces the snapshot of the backend among the futures of a snapshot, whose parts are all cancelled if that fails. */
    void snapshot(
            OperatorSnapshotFutures futures,
            long checkpointId,
            long timestamp,
            CheckpointOptions options,
            CheckpointStreamFactory streams)
            throws Exception {
        if (table != null && !isCanonical(options)) {
            return; // the snapshot of the backend has it
        }
        try {
            StateUtil.discardStateFuture(futures.getKeyedStateManagedFuture());
            futures.setKeyedStateManagedFuture(snapshot(checkpointId, timestamp, options, streams));
        } catch (Exception e) {
            futures.cancel();
            throw e;
        }
    }

    private RunnableFuture<SnapshotResult<KeyedStateHandle>> snapshot(
            long checkpointId, long timestamp, CheckpointOptions options, CheckpointStreamFactory streams)
            throws Exception {
        final NativeStateSnapshot snapshot =
                NativeStateSnapshot.take(stage, backend, table == null ? null : table.lease());
        try {
            return new SnapshotStrategyRunner<>(
                            "Snapshot of native state of " + description,
                            new Writing(snapshot),
                            cancelables,
                            SnapshotExecutionType.ASYNCHRONOUS)
                    .snapshot(checkpointId, timestamp, streams, options);
        } catch (Exception e) {
            snapshot.release();
            throw e;
        }
    }

    /** Writes a snapshot that was taken. */
    private record Writing(NativeStateSnapshot snapshot)
            implements SnapshotStrategy<KeyedStateHandle, NativeStateSnapshot> {

        @Override
        public NativeStateSnapshot syncPrepareResources(long checkpointId) {
            return snapshot;
        }

        @Override
        public SnapshotResultSupplier<KeyedStateHandle> asyncSnapshot(
                NativeStateSnapshot resources,
                long checkpointId,
                long timestamp,
                CheckpointStreamFactory streams,
                CheckpointOptions options) {
            // A handle of a savepoint is one that every backend reads, which that of a checkpoint is not.
            return new FullSnapshotAsyncWriter<>(
                    SavepointType.savepoint(SavepointFormatType.CANONICAL),
                    () -> CheckpointStreamWithResultProvider.createSimpleStream(CheckpointedStateScope.EXCLUSIVE, streams),
                    resources);
        }
    }

    /**
     * To be called whenever the state may have grown. Fails if the slot does not have the memory that it takes; state in RocksDB makes room
     * instead. What has left is used again before anything more is taken, so that it stays where it was when there was no more, and by what one
     * batch adds above.
     */
    void accountForMemory() {
        long[] bytes = Native.stageMemory(stage);
        if (table == null) {
            memory.update(bytes[0], bytes[1]);
            return;
        }
        if (bytes[0] > cacheBytes) {
            Native.stageEvict(stage);
            bytes = Native.stageMemory(stage);
        }
        if (bytes[0] > ceiling) {
            if (!memory.offer(bytes[0], bytes[1])) {
                Native.stageEvict(stage);
                final long[] left = Native.stageMemory(stage);
                memory.stretch(left[0], left[1]);
                ceiling = left[0];
            }
        } else {
            memory.note(bytes[0], bytes[1]);
        }
    }

    /** Bytes that the state was found to take last. */
    long usedBytes() {
        return memory.used();
    }

    /** Gives the memory back. Snapshots that are being written keep what they need. */
    @Override
    public void close() {
        memory.close();
        if (table != null) {
            table.close();
            table = null;
        }
    }
}
