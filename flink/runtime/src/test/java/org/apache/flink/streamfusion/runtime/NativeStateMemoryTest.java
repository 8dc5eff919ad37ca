package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.flink.runtime.checkpoint.CheckpointOptions;
import org.apache.flink.runtime.checkpoint.CheckpointType;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.state.CheckpointStreamFactory;
import org.apache.flink.runtime.state.CheckpointedStateScope;
import org.apache.flink.runtime.state.CheckpointStateOutputStream;
import org.apache.flink.runtime.state.CheckpointStorageLocationReference;
import org.apache.flink.runtime.state.KeyedStateHandle;
import org.apache.flink.runtime.state.SnapshotResult;
import org.apache.flink.runtime.state.StreamStateHandle;
import org.apache.flink.runtime.state.memory.MemCheckpointStreamFactory;
import org.apache.flink.state.rocksdb.RocksDBKeyedStateBackend;
import org.apache.flink.streaming.api.operators.OperatorSnapshotFutures;
import org.apache.flink.util.ResourceGuard;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.IOException;
import java.lang.reflect.Field;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.RunnableFuture;

/** What native state and its snapshots take, when they give it back, and what leaves memory for RocksDB. */
class NativeStateMemoryTest extends NativeStateTestBase {

    // --------------------------------------------------------------------------------------- snapshots that come to nothing

    private static OperatorSnapshotFutures futures(StatefulHarness harness, CheckpointStreamFactory streams) throws Exception {
        harness.prepareSnapshotPreBarrier(1);
        return harness.getOperator()
                .snapshotState(
                        1,
                        0,
                        CheckpointOptions.alignedNoTimeout(
                                CheckpointType.CHECKPOINT, CheckpointStorageLocationReference.getDefault()),
                        streams);
    }

    @Test
    void aSnapshotThatIsCancelledBeforeItIsWrittenIsFreed() throws Exception {
        try (StatefulHarness harness = new StatefulHarness(groupBy()).start(null)) {
            harness.process(1, 10);
            final OperatorSnapshotFutures futures = futures(harness, new MemCheckpointStreamFactory(1 << 20));
            final long open = Native.liveHandles();
            futures.cancel();
            assertThat(Native.liveHandles()).isEqualTo(open - 1);
            assertThatThrownBy(() -> futures.getKeyedStateManagedFuture().get()).isInstanceOf(CancellationException.class);
        }
    }

    @Test
    void aSnapshotThatFailsToBeWrittenIsFreed() throws Exception {
        try (StatefulHarness harness = new StatefulHarness(groupBy()).start(null)) {
            harness.process(1, 10);
            final long open = Native.liveHandles();
            final RunnableFuture<?> future = futures(harness, new NoStreams()).getKeyedStateManagedFuture();
            future.run();
            assertThatThrownBy(future::get).isInstanceOf(ExecutionException.class).hasStackTraceContaining("the disk is full");
            assertThat(Native.liveHandles()).isEqualTo(open);
            harness.process(1, 1);
            assertThat(harness.results()).as("the task goes on").containsEntry(1L, "1 2 11");
        }
    }

    @Test
    void aSnapshotThatNobodyWritesIsFreedWithItsTask() throws Exception {
        final StatefulHarness harness = new StatefulHarness(groupBy()).start(null);
        harness.process(1, 10);
        futures(harness, new MemCheckpointStreamFactory(1 << 20));
        harness.close();
        harness.getOperator().getContainingTask().getCancelables().close();
    }

    @Test
    void aSnapshotIsWrittenWhileItsOperatorCloses() throws Exception {
        final StatefulHarness harness = new StatefulHarness(groupBy()).start(null);
        harness.process(1, 10);
        final RunnableFuture<? extends SnapshotResult<KeyedStateHandle>> future =
                futures(harness, new MemCheckpointStreamFactory(1 << 20)).getKeyedStateManagedFuture();
        harness.getOperator().close();
        future.run();
        final OperatorSubtaskState snapshot =
                OperatorSubtaskState.builder()
                        .setManagedKeyedState(future.get().getJobManagerOwnedSnapshot())
                        .build();
        try (StatefulHarness next = new StatefulHarness(groupBy()).start(snapshot)) {
            next.process(1, 1);
            assertThat(next.results()).isEqualTo(Map.of(1L, "1 2 11"));
        }
    }

    /** A storage without room. */
    private static final class NoStreams implements CheckpointStreamFactory {
        @Override
        public CheckpointStateOutputStream createCheckpointStateOutputStream(CheckpointedStateScope scope) throws IOException {
            throw new IOException("the disk is full");
        }

        @Override
        public boolean canFastDuplicate(StreamStateHandle handle, CheckpointedStateScope scope) {
            return false;
        }

        @Override
        public List<StreamStateHandle> duplicate(List<StreamStateHandle> handles, CheckpointedStateScope scope) {
            throw new UnsupportedOperationException();
        }
    }

    // ---------------------------------------------------------------------------------------------------------- memory

    @Test
    void stateThatOutgrowsTheManagedMemoryFailsTheTaskAndSaysWhatToRaise() throws Exception {
        try (StatefulHarness harness = new StatefulHarness(groupBy(), "counts", 128, 1, 0, 4 << 20)) {
            harness.start(null);
            assertThatThrownBy(
                            () -> {
                                for (long key = 0; key < 1_000_000; key++) {
                                    harness.process(key, 1);
                                }
                            })
                    .isInstanceOf(NativeException.class)
                    .hasMessageContaining("GroupAggregate(groupBy=[k]) needs ")
                    .hasMessageContaining(" MiB of managed memory for its state and open bundles. It has 4 MiB, and of the 4 MiB of its slot 0 MiB")
                    .hasMessageContaining("taskmanager.memory.managed.size or taskmanager.memory.managed.fraction");
            harness.getOperator().close();
            assertThat(harness.getEnvironment().getMemoryManager().availableMemory()).isEqualTo(4 << 20);
        }
    }

    @Test
    void aSlotWithoutManagedMemoryIsFoundOutBeforeTheFirstRow() throws Exception {
        try (StatefulHarness harness = new StatefulHarness(groupBy(), "counts", 128, 1, 0, 0)) {
            assertThatThrownBy(() -> harness.start(null)).hasMessageContaining("of the 0 MiB of its slot 0 MiB are left");
        }
    }

    @Test
    void managedMemoryIsReservedAsTheStateGrowsAndGivenBackAtTheEnd() throws Exception {
        try (StatefulHarness harness = new StatefulHarness(groupBy())) {
            harness.start(null);
            final var manager = harness.getEnvironment().getMemoryManager();
            assertThat(manager.availableMemory()).isEqualTo(StatefulHarness.MEMORY_BYTES - ManagedMemory.STEP_BYTES);
            for (long key = 0; key < 50_000; key++) {
                harness.process(key, 1);
            }
            harness.results();
            assertThat(manager.availableMemory()).isLessThan(StatefulHarness.MEMORY_BYTES - 50_000 * 24);
            harness.getOperator().close();
            assertThat(manager.availableMemory()).isEqualTo(StatefulHarness.MEMORY_BYTES);
        }
    }

    @Test
    void bundleOfAStageWithoutStateIsReservedAsItGrowsAndGivenBackAtTheEnd() throws Exception {
        try (StatefulHarness harness = new StatefulHarness(GroupBy.localStage(1_000_000).build())) {
            harness.start(null);
            final var manager = harness.getEnvironment().getMemoryManager();
            assertThat(manager.availableMemory()).isEqualTo(StatefulHarness.MEMORY_BYTES - ManagedMemory.STEP_BYTES);
            for (long key = 0; key < 100_000; key++) {
                harness.process(key, 1);
            }
            assertThat(manager.availableMemory()).isLessThan(StatefulHarness.MEMORY_BYTES - 90_000 * 24);
            harness.getOperator().close();
            assertThat(manager.availableMemory()).isEqualTo(StatefulHarness.MEMORY_BYTES);
        }
    }

    @Test
    void bundleThatOutgrowsTheManagedMemoryFailsTheTask() throws Exception {
        final StageConfig local = GroupBy.localStage(Integer.MAX_VALUE).build();
        try (StatefulHarness harness = new StatefulHarness(local, "local", 128, 1, 0, 4 << 20)) {
            harness.start(null);
            assertThatThrownBy(
                            () -> {
                                for (long key = 0; key < 1_000_000; key++) {
                                    harness.process(key, 1);
                                }
                            })
                    .isInstanceOf(NativeException.class)
                    .hasMessageContaining("LocalGroupAggregate(groupBy=[k]) needs ")
                    .hasMessageContaining("open bundles. It has 4 MiB, and of the 4 MiB of its slot 0 MiB");
        }
    }

    /** More keys than four times the managed memory has room for, and than what may be used above it. */
    private static final int MANY_KEYS = 1_000_000;

    private static final long LITTLE_MEMORY = 16 << 20;

    /** Less than a key takes in memory. */
    private static final long LEAST_KEY_BYTES = 70;

    @Test
    void stateOfFourTimesItsMemoryGoesToRocksDbAndMemoryStaysWithinItsBudget() throws Exception {
        assertThat(MANY_KEYS * LEAST_KEY_BYTES)
                .isGreaterThan(4 * LITTLE_MEMORY)
                .isGreaterThan(LITTLE_MEMORY + ManagedMemory.STRETCH_BYTES);
        final OperatorSubtaskState snapshot;
        try (StatefulHarness harness = new StatefulHarness(groupBy(), "counts", 128, 1, 0, LITTLE_MEMORY)) {
            harness.on(rocksDb(true)).start(null);
            long peak = 0;
            for (long key = 0; key < MANY_KEYS; key++) {
                harness.process(key, key);
                if (key % StageConfig.DEFAULT_MAX_BATCH_ROWS == 0) {
                    peak = Math.max(peak, harness.stateBytes());
                    harness.out.events.clear();
                }
            }
            assertThat(peak).isBetween(LITTLE_MEMORY / 4, LITTLE_MEMORY + ManagedMemory.STRETCH_BYTES);
            for (long key = 0; key < MANY_KEYS; key += 10_000) {
                harness.process(key, 1);
            }
            snapshot = harness.checkpoint();
            final Map<Long, String> results = harness.results();
            for (long key = 0; key < MANY_KEYS; key += 10_000) {
                assertThat(results).containsEntry(key, key + " 2 " + (key + 1));
            }
            assertThat(harness.getEnvironment().getMemoryManager().availableMemory()).isZero();
        }
        try (StatefulHarness harness = new StatefulHarness(groupBy(), "counts", 128, 1, 0, LITTLE_MEMORY)) {
            harness.on(rocksDb(true)).start(snapshot);
            for (long key = 5_000; key < MANY_KEYS; key += 10_000) {
                harness.process(key, 1);
                harness.process(key - 5_000, 1);
            }
            final Map<Long, String> results = harness.results();
            for (long key = 5_000; key < MANY_KEYS; key += 10_000) {
                assertThat(results).containsEntry(key, key + " 2 " + (key + 1));
                assertThat(results).containsEntry(key - 5_000, (key - 5_000) + " 3 " + (key - 5_000 + 2));
            }
        }
    }

    private static StageConfig withoutCache() {
        return GroupBy.stage(0).maxBatchRows(8).stateCacheBytes(1).build();
    }

    @ParameterizedTest
    @ValueSource(strings = {"rocksdb", "rocksdb incremental"})
    void whatLeftMemoryAfterTheCheckpointIsGoneWithACrash(String backend) throws Exception {
        final OperatorSubtaskState snapshot;
        try (StatefulHarness harness = new StatefulHarness(withoutCache())) {
            harness.on(backend(backend)).start(null);
            for (long row = 0; row < 2 * KEYS; row++) {
                harness.process(row % KEYS, row);
            }
            snapshot = harness.checkpoint();
            // each batch writes keys back, which the database has from then on
            for (long row = 0; row < 2 * KEYS; row++) {
                harness.process(row % (2 * KEYS), -1);
            }
            assertThat(harness.backend().numKeyValueStateEntries())
                    .as("with a record per key group")
                    .isGreaterThan(KEYS + KEYS / 2 + 128);
        }
        try (StatefulHarness harness = new StatefulHarness(withoutCache())) {
            harness.on(backend(backend)).start(snapshot);
            for (long key = 0; key < 2 * KEYS; key++) {
                harness.process(key, 1);
            }
            final Map<Long, String> results = harness.results();
            for (long key = 0; key < KEYS; key++) {
                assertThat(results).containsEntry(key, key + " 3 " + (2 * key + KEYS + 1));
                assertThat(results).containsEntry(key + KEYS, (key + KEYS) + " 1 1");
            }
        }
    }

    /** What a backend waits for before it closes its database. */
    private static ResourceGuard guard(StatefulHarness harness) throws ReflectiveOperationException {
        final Field guard = RocksDBKeyedStateBackend.class.getDeclaredField("rocksDBResourceGuard");
        guard.setAccessible(true);
        return (ResourceGuard) guard.get(harness.backend());
    }

    @Test
    void aDatabaseIsNotClosedUnderABatchAndWhatComesAfterwardsIsAnException() throws Exception {
        try (StatefulHarness harness = new StatefulHarness(withoutCache())) {
            harness.on(rocksDb(false)).start(null);
            harness.process(1, 10);
            final Thread closing = new Thread(guard(harness)::close);
            closing.start();
            while (closing.getState() == Thread.State.NEW || closing.getState() == Thread.State.RUNNABLE) {
                Thread.sleep(1);
            }
            for (long row = 0; row < 2 * KEYS; row++) {
                harness.process(row % KEYS, 1);
            }
            assertThat(harness.results()).containsEntry(1L, "1 3 12");
            assertThat(closing.isAlive()).as("it waits for the stage").isTrue();
            assertThatThrownBy(() -> harness.snapshot(CANONICAL)).isInstanceOf(Exception.class);
            harness.getOperator().close();
            closing.join(10_000);
            assertThat(closing.isAlive()).isFalse();
            assertThatThrownBy(() -> harness.process(1, 1)).isInstanceOf(Exception.class);
        }
    }
}
