package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.checkpoint.CheckpointOptions;
import org.apache.flink.runtime.checkpoint.CheckpointType;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.checkpoint.SavepointType;
import org.apache.flink.runtime.checkpoint.SnapshotType;
import org.apache.flink.runtime.execution.SuppressRestartsException;
import org.apache.flink.runtime.state.CheckpointStreamFactory;
import org.apache.flink.runtime.state.CheckpointedStateScope;
import org.apache.flink.runtime.state.CheckpointStateOutputStream;
import org.apache.flink.runtime.state.CheckpointStorageLocationReference;
import org.apache.flink.runtime.state.CheckpointableKeyedStateBackend;
import org.apache.flink.runtime.state.IncrementalRemoteKeyedStateHandle;
import org.apache.flink.runtime.state.KeyedStateHandle;
import org.apache.flink.runtime.state.OperatorStateBackend;
import org.apache.flink.runtime.state.SavepointKeyedStateHandle;
import org.apache.flink.runtime.state.SnapshotResult;
import org.apache.flink.runtime.state.StateBackend;
import org.apache.flink.runtime.state.StreamStateHandle;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.hashmap.HashMapStateBackend;
import org.apache.flink.runtime.state.memory.MemCheckpointStreamFactory;
import org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackend;
import org.apache.flink.state.rocksdb.RocksDBKeyedStateBackend;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;
import org.apache.flink.streaming.api.operators.OperatorSnapshotFutures;
import org.apache.flink.streaming.api.operators.SimpleOperatorFactory;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.AbstractStreamOperatorTestHarness;
import org.apache.flink.streaming.util.KeyedOneInputStreamOperatorTestHarness;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.keyselector.RowDataKeySelector;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.util.Collector;
import org.apache.flink.util.ResourceGuard;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.RunnableFuture;
import java.util.stream.Stream;

/** Native state in the snapshots of Flink, and back. */
class NativeStateTest extends NativeTestBase {

    private static final int KEYS = 500;

    private static final SnapshotType CANONICAL = SavepointType.savepoint(SavepointFormatType.CANONICAL);
    private static final SnapshotType NATIVE = SavepointType.savepoint(SavepointFormatType.NATIVE);

    private static StageConfig groupBy() {
        return GroupBy.stage(0).build();
    }

    private static StateBackend heap() {
        return new HashMapStateBackend();
    }

    private static StateBackend rocksDb(boolean incremental) {
        return new EmbeddedRocksDBStateBackend(incremental);
    }

    // ------------------------------------------------------------------------------------------- snapshot and restore

    static Stream<Arguments> snapshots() {
        final List<Arguments> cases = new ArrayList<>();
        for (String from : List.of("heap", "rocksdb", "rocksdb incremental")) {
            for (String to : List.of("heap", "rocksdb", "rocksdb incremental")) {
                for (SnapshotType type : List.of(CheckpointType.CHECKPOINT, CheckpointType.FULL_CHECKPOINT, CANONICAL, NATIVE)) {
                    cases.add(Arguments.of(from, to, type));
                }
            }
        }
        return cases.stream();
    }

    private static StateBackend backend(String name) {
        return name.equals("heap") ? heap() : rocksDb(name.endsWith("incremental"));
    }

    @ParameterizedTest
    @MethodSource("snapshots")
    void stateGoesOnWhereASnapshotWasTakenUnderWhicheverBackend(String from, String to, SnapshotType type) throws Exception {
        final OperatorSubtaskState snapshot;
        try (StatefulHarness harness = new StatefulHarness(groupBy())) {
            harness.on(backend(from)).start(null);
            assertThat(harness.backend().getBackendTypeIdentifier()).isEqualTo(from.equals("heap") ? "hashmap" : "rocksdb");
            harness.process(1, 10);
            harness.process(2, 20);
            snapshot = harness.snapshot(type);
            harness.process(1, 30);
            assertThat(harness.results()).containsEntry(1L, "1 2 40");
        }
        final boolean inFiles = !from.equals("heap") && type != CANONICAL;
        assertThat(snapshot.getManagedKeyedState())
                .hasOnlyElementsOfType(
                        inFiles ? IncrementalRemoteKeyedStateHandle.class : SavepointKeyedStateHandle.class);
        try (StatefulHarness harness = new StatefulHarness(groupBy())) {
            harness.on(backend(to));
            if (inFiles && to.equals("heap")) {
                assertThatThrownBy(() -> harness.start(snapshot))
                        .as("as with stock Flink, only a canonical savepoint moves to another backend")
                        .hasStackTraceContaining("Unexpected state handle type");
                return;
            }
            harness.start(snapshot);
            assertThat(harness.backend().getBackendTypeIdentifier()).isEqualTo(to.equals("heap") ? "hashmap" : "rocksdb");
            harness.process(1, 5);
            harness.process(3, 5);
            assertThat(harness.results()).isEqualTo(Map.of(1L, "1 2 15", 3L, "3 1 5"));
            assertThat(harness.backend().getKeys(Native.stateName(0), VoidNamespace.INSTANCE))
                    .as("the backend keeps nothing of what the library took over")
                    .isEmpty();
        }
    }

    @Test
    void aSnapshotWithoutAnyKeyIsOneToo() throws Exception {
        final OperatorSubtaskState snapshot;
        try (StatefulHarness harness = new StatefulHarness(groupBy()).start(null)) {
            snapshot = harness.checkpoint();
        }
        try (StatefulHarness harness = new StatefulHarness(groupBy()).start(snapshot)) {
            harness.process(1, 1);
            assertThat(harness.results()).isEqualTo(Map.of(1L, "1 1 1"));
        }
    }

    @ParameterizedTest
    @CsvSource({
        "2, 3, 128, heap, heap", "3, 2, 128, heap, rocksdb", "1, 4, 128, rocksdb, heap",
        "2, 3, 200, rocksdb, heap", "3, 2, 200, heap, heap", "1, 4, 200, heap, rocksdb",
        "2, 3, 32768, heap, rocksdb", "3, 2, 32768, rocksdb, heap", "1, 4, 32768, heap, heap",
        "2, 3, 128, rocksdb, rocksdb", "3, 2, 200, rocksdb incremental, rocksdb", "1, 4, 32768, rocksdb, rocksdb incremental"
    })
    void everyKeyIsRescaledToTheSubtaskThatOwnsIt(int before, int after, int maxParallelism, String from, String to)
            throws Exception {
        final OperatorSubtaskState[] snapshots = new OperatorSubtaskState[before];
        for (int subtask = 0; subtask < before; subtask++) {
            try (StatefulHarness harness = new StatefulHarness(groupBy(), maxParallelism, before, subtask)) {
                harness.on(backend(from)).start(null);
                for (long row = 0; row < 2 * KEYS; row++) {
                    harness.process(row % KEYS, row);
                }
                snapshots[subtask] =
                        harness.snapshot(to.equals("heap") ? CANONICAL : CheckpointType.CHECKPOINT);
            }
        }
        final OperatorSubtaskState whole = AbstractStreamOperatorTestHarness.repackageState(snapshots);
        final Map<Long, String> results = new TreeMap<>();
        for (int subtask = 0; subtask < after; subtask++) {
            final OperatorSubtaskState part =
                    AbstractStreamOperatorTestHarness.repartitionOperatorState(
                            whole, maxParallelism, before, after, subtask);
            try (StatefulHarness harness = new StatefulHarness(groupBy(), maxParallelism, after, subtask)) {
                harness.on(backend(to)).start(part);
                for (long key = 0; key < KEYS; key++) {
                    harness.process(key, 1);
                }
                results.putAll(harness.results());
            }
        }
        final Map<Long, String> expected = new TreeMap<>();
        for (long key = 0; key < KEYS; key++) {
            expected.put(key, key + " 3 " + (2 * key + KEYS + 1));
        }
        assertThat(results).isEqualTo(expected);
    }

    @Test
    void restoringLeavesTheKeyContextAsItWas() throws Exception {
        final OperatorSubtaskState snapshot;
        try (StatefulHarness harness = new StatefulHarness(groupBy()).start(null)) {
            harness.process(1, 10);
            snapshot = harness.checkpoint();
            assertThat(harness.backend().getCurrentKey()).as("no key was ever set").isNull();
        }
        try (StatefulHarness harness = new StatefulHarness(groupBy(), 128, 2, 1)) {
            final OperatorSubtaskState half = AbstractStreamOperatorTestHarness.repartitionOperatorState(snapshot, 128, 1, 2, 1);
            harness.initializeState(half);
            assertThat(harness.backend().getCurrentKeyGroupIndex()).as("not even its own").isZero();
            harness.open();
            assertThat(harness.backend().getCurrentKey()).isNull();
        }
        for (StateBackend backend : List.of(heap(), rocksDb(false))) {
            try (StatefulHarness harness = new StatefulHarness(groupBy())) {
                harness.on(backend).initializeState(snapshot);
                harness.backend().setCurrentKeyAndKeyGroup(77, 5);
                harness.open();
                assertThat(harness.backend().getCurrentKey()).isEqualTo(77);
                assertThat(harness.backend().getCurrentKeyGroupIndex()).isEqualTo(5);
            }
        }
    }

    // ---------------------------------------------------------------------------------------------------- time to live

    private static final long TTL_MS = 2_000;

    @ParameterizedTest
    @ValueSource(strings = {"heap", "rocksdb"})
    void aKeyExpiresItsTimeToLiveAfterItWasWrittenWhetherOrNotItWasRestoredMeanwhile(String backend) throws Exception {
        final OperatorSubtaskState snapshot;
        try (StatefulHarness harness = new StatefulHarness(GroupBy.stage(TTL_MS).build())) {
            harness.on(backend(backend)).start(null);
            harness.process(1, 10);
            snapshot = harness.checkpoint();
        }
        Thread.sleep(TTL_MS / 2);
        try (StatefulHarness harness = new StatefulHarness(GroupBy.stage(TTL_MS).build())) {
            harness.on(backend(backend)).start(snapshot);
            harness.process(2, 20);
            assertThat(harness.results()).isEqualTo(Map.of(2L, "2 1 20"));
            Thread.sleep(TTL_MS / 2 + 100);
            harness.process(1, 5);
            assertThat(harness.results()).containsEntry(1L, "1 1 5");
        }
        try (StatefulHarness harness = new StatefulHarness(GroupBy.stage(TTL_MS).build())) {
            harness.on(backend(backend)).start(snapshot);
            harness.process(1, 7);
            assertThat(harness.results()).as("expired before it was restored").isEqualTo(Map.of(1L, "1 1 7"));
        }
    }

    @Test
    void aKeyThatLivesLongerIsRestored() throws Exception {
        final OperatorSubtaskState snapshot;
        final StageConfig hour = GroupBy.stage(3_600_000).build();
        try (StatefulHarness harness = new StatefulHarness(hour).start(null)) {
            harness.process(1, 10);
            snapshot = harness.checkpoint();
        }
        try (StatefulHarness harness = new StatefulHarness(hour).start(snapshot)) {
            harness.process(1, 5);
            assertThat(harness.results()).isEqualTo(Map.of(1L, "1 2 15"));
        }
    }

    @ParameterizedTest
    @CsvSource({"0, 3600000", "3600000, 0", "3600000, 7200000"})
    void theTimeToLiveMayBeAnotherOneAfterwards(long before, long after) throws Exception {
        final OperatorSubtaskState snapshot;
        try (StatefulHarness harness = new StatefulHarness(GroupBy.stage(before).build()).start(null)) {
            harness.process(1, 10);
            snapshot = harness.checkpoint();
        }
        try (StatefulHarness harness = new StatefulHarness(GroupBy.stage(after).build()).start(snapshot)) {
            harness.process(1, 5);
            assertThat(harness.results()).isEqualTo(Map.of(1L, "1 2 15"));
        }
    }

    // ------------------------------------------------------------------------------------------------- what goes wrong

    @Test
    void stateOfAnotherOperatorIsRefused() throws Exception {
        final OperatorSubtaskState snapshot;
        try (StatefulHarness harness = new StatefulHarness(groupBy()).start(null)) {
            harness.process(1, 10);
            snapshot = harness.checkpoint();
        }
        try (StatefulHarness harness = new StatefulHarness(groupBy(), "other", 128, 1, 0, StatefulHarness.MEMORY_BYTES)) {
            assertThatThrownBy(() -> harness.start(snapshot))
                    .isInstanceOf(NativeException.class)
                    .hasMessageContaining("belongs to the operator `counts/")
                    .hasMessageContaining("not to `other/")
                    .hasMessageContaining("give the operators of the job the uids they had");
        }
    }

    /** A stock operator with a key of SQL, as its GROUP BY has it. */
    private static KeyedOneInputStreamOperatorTestHarness<RowData, RowData, RowData> stock() throws Exception {
        return new KeyedOneInputStreamOperatorTestHarness<>(
                SimpleOperatorFactory.of(new KeyedProcessOperator<>(new Counting())), new FirstColumn(), KEY_TYPE);
    }

    private static final InternalTypeInfo<RowData> KEY_TYPE =
            InternalTypeInfo.of(RowType.of(DataTypes.BIGINT().getLogicalType()));

    private static final class FirstColumn implements RowDataKeySelector {
        private static final long serialVersionUID = 1L;

        @Override
        public RowData getKey(RowData row) {
            return GenericRowData.of(row.getLong(0));
        }

        @Override
        public InternalTypeInfo<RowData> getProducedType() {
            return KEY_TYPE;
        }

        @Override
        public RowDataKeySelector copy() {
            return this;
        }
    }

    private static final class Counting extends KeyedProcessFunction<RowData, RowData, RowData> {
        private static final long serialVersionUID = 1L;

        @Override
        public void processElement(RowData row, Context context, Collector<RowData> out) throws Exception {
            final ValueState<Long> count = getRuntimeContext().getState(new ValueStateDescriptor<>("accState", Types.LONG));
            count.update(count.value() == null ? 1 : count.value() + 1);
        }
    }

    static Stream<Arguments> kinds() {
        return Stream.of("heap", "rocksdb", "rocksdb incremental")
                .flatMap(backend -> Stream.of(CheckpointType.CHECKPOINT, CANONICAL).map(type -> Arguments.of(backend, type)));
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void aStockSnapshotIsNoStateOfANativeOperator(String backend, SnapshotType type) throws Exception {
        final OperatorSubtaskState snapshot;
        try (var harness = stock()) {
            harness.setStateBackend(backend(backend));
            harness.open();
            harness.processElement(new StreamRecord<>(GenericRowData.of(1L, 2L)));
            snapshot = harness.snapshotWithLocalState(1, 0, type).getJobManagerOwnedState();
        }
        try (StatefulHarness harness = new StatefulHarness(groupBy())) {
            harness.on(backend(backend));
            assertThatThrownBy(() -> harness.start(snapshot))
                    .hasStackTraceContaining("StreamFusion's native state, which operators of stock Flink cannot read")
                    .hasStackTraceContaining("'streamfusion.enabled'");
        }
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void aNativeSnapshotIsNoStateOfAStockOperator(String backend, SnapshotType type) throws Exception {
        final OperatorSubtaskState snapshot;
        try (StatefulHarness harness = new StatefulHarness(groupBy())) {
            harness.on(backend(backend)).start(null);
            harness.process(1, 10);
            snapshot = harness.snapshot(type);
        }
        try (var harness = stock()) {
            harness.setStateBackend(backend(backend));
            assertThatThrownBy(() -> harness.initializeState(snapshot))
                    .hasStackTraceContaining("StreamFusion's native state, which operators of stock Flink cannot read")
                    .hasStackTraceContaining("'streamfusion.enabled'");
        }
    }

    @Test
    void anOperatorWithoutABackendSaysWhichItNeeds() throws Exception {
        try (StageHarness harness = new StageHarness(groupBy())) {
            assertThatThrownBy(harness::open)
                    .isInstanceOf(SuppressRestartsException.class)
                    .hasStackTraceContaining("needs the state backend hashmap or rocksdb and no state changelog. It got no backend");
        }
    }

    /** Stands between a backend and its operator, as one that logs changes does, and calls itself what it writes to. */
    private static final class Wrapping implements StateBackend {
        private static final long serialVersionUID = 1L;

        private final HashMapStateBackend wrapped = new HashMapStateBackend();

        @Override
        @SuppressWarnings("unchecked")
        public <K> CheckpointableKeyedStateBackend<K> createKeyedStateBackend(KeyedStateBackendParameters<K> parameters)
                throws IOException {
            final CheckpointableKeyedStateBackend<K> backend = wrapped.createKeyedStateBackend(parameters);
            return (CheckpointableKeyedStateBackend<K>)
                    Proxy.newProxyInstance(
                            getClass().getClassLoader(),
                            new Class<?>[] {CheckpointableKeyedStateBackend.class},
                            (proxy, method, arguments) -> method.invoke(backend, arguments));
        }

        @Override
        public OperatorStateBackend createOperatorStateBackend(OperatorStateBackendParameters parameters) throws Exception {
            return wrapped.createOperatorStateBackend(parameters);
        }
    }

    @Test
    void aBackendThatStandsInFrontOfAnotherIsRefused() throws Exception {
        try (StatefulHarness harness = new StatefulHarness(groupBy()).on(new Wrapping())) {
            assertThatThrownBy(() -> harness.start(null))
                    .isInstanceOf(SuppressRestartsException.class)
                    .hasStackTraceContaining("and no state changelog. It got a ")
                    .hasStackTraceContaining("Set state.backend.type and state.changelog.enabled in the job");
        }
    }

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
                    .hasMessageContaining(" MiB of managed memory for its state. It has 4 MiB, and of the 4 MiB of its slot 0 MiB")
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

    // ------------------------------------------------------------------------------------------------------ corruption

    private static final String STATE =
            "{\"operatorId\":\"counts\",\"maxParallelism\":128,\"firstKeyGroup\":0,\"lastKeyGroup\":127}";

    private interface Use<T> {
        T of(long handle) throws Exception;
    }

    /** Opens the stage of {@link GroupBy} without a task. */
    private static <T> T withStage(Use<T> use) throws Exception {
        final long stage = Native.stageOpen(groupBy().spec, null, 1, 128, STATE);
        try {
            return use.of(stage);
        } finally {
            Native.stageClose(stage);
        }
    }

    /** Takes a snapshot of a stage that knows all keys. */
    private static <T> T withSnapshot(Use<T> use) throws Exception {
        return withStage(
                stage -> {
                    final RowEntry entry =
                            new RowEntry(
                                    EntryMemory.open(groupBy().spec, KEYS),
                                    GroupBy.INPUT,
                                    ReadFields.all(GroupBy.INPUT),
                                    KEYS);
                    try (entry) {
                        for (long key = 0; key < KEYS; key++) {
                            entry.write(GenericRowData.of(key, key));
                        }
                        Native.stagePush(stage, 0, entry.finish());
                    }
                    for (long batch = Native.stagePull(stage); batch != 0; batch = Native.stagePull(stage)) {
                        Native.batchRelease(batch);
                    }
                    final long snapshot = Native.stageSnapshot(stage);
                    try {
                        return use.of(snapshot);
                    } finally {
                        Native.snapshotRelease(snapshot);
                    }
                });
    }

    /** Header and chunks of some key group. */
    private static byte[][] container(int keyGroup) throws Exception {
        return withSnapshot(
                snapshot -> {
                    assertThat(Native.snapshotKeyGroups(snapshot)).isSorted().contains(keyGroup);
                    final int chunks = Native.snapshotEncode(snapshot, keyGroup);
                    assertThat(chunks).isBetween(1, Native.snapshotChunks(snapshot));
                    final byte[][] container = new byte[1 + chunks][];
                    Arrays.setAll(container, state -> Native.snapshotPart(snapshot, keyGroup, state));
                    return container;
                });
    }

    @Test
    void onlyThePartsOfTheKeyGroupThatWasEncodedLastAreThere() throws Exception {
        withSnapshot(
                snapshot -> {
                    assertThatThrownBy(() -> Native.snapshotPart(snapshot, 7, 0)).isInstanceOf(NativeException.class);
                    final int chunks = Native.snapshotEncode(snapshot, 7);
                    assertThat(Native.snapshotPart(snapshot, 7, chunks)).isNotEmpty();
                    assertThatThrownBy(() -> Native.snapshotPart(snapshot, 7, chunks + 1)).isInstanceOf(NativeException.class);
                    assertThatThrownBy(() -> Native.snapshotPart(snapshot, 7, -1)).isInstanceOf(NativeException.class);
                    Native.snapshotEncode(snapshot, 8);
                    assertThatThrownBy(() -> Native.snapshotPart(snapshot, 7, 0)).isInstanceOf(NativeException.class);
                    assertThat(Native.snapshotPart(snapshot, 8, 0)).isNotEmpty();
                    return null;
                });
    }

    @Test
    void aSnapshotWithMoreChunksThanItAnnouncedFails() throws Exception {
        withSnapshot(
                snapshot -> {
                    final int first = Native.snapshotKeyGroups(snapshot)[0];
                    try (NativeStateIterator enough = new NativeStateIterator(snapshot, 128, 1)) {
                        assertThat(enough.keyGroup()).isEqualTo(first);
                    }
                    assertThatThrownBy(() -> new NativeStateIterator(snapshot, 128, 0))
                            .isInstanceOf(NativeException.class)
                            .hasMessage("The native state of key group %d has 1 chunks where at most 0 were announced", first);
                    return null;
                });
    }

    private static void restore(int keyGroup, byte[]... container) throws Exception {
        withStage(
                stage -> {
                    final byte[][] chunks = Arrays.copyOfRange(container, 1, container.length);
                    Native.stageRestore(stage, keyGroup, container[0], chunks);
                    return null;
                });
    }

    private static void assertRefused(int keyGroup, byte[]... container) {
        assertThatThrownBy(() -> restore(keyGroup, container))
                .isInstanceOf(NativeException.class)
                .hasMessageContaining("GroupAggregate(groupBy=[k])")
                .hasMessageContaining("native state of key group " + keyGroup)
                .hasMessageNotContaining("panicked");
    }

    @Test
    void everyFlippedByteOfAContainerIsRefused() throws Exception {
        final byte[][] container = container(7);
        restore(7, container);
        for (byte[] part : container) {
            for (int at = 0; at < part.length; at++) {
                part[at] ^= 1;
                assertRefused(7, container);
                part[at] ^= 1;
            }
        }
        restore(7, container);
    }

    @Test
    void chunksThatAreDroppedAddedSwappedOrCutAreRefused() throws Exception {
        final byte[] header = container(7)[0];
        final byte[] chunk = container(7)[1];
        final byte[][] other = container(8);
        assertRefused(7, header);
        assertRefused(7, header, chunk, chunk);
        assertRefused(7, header, other[1]);
        assertRefused(7, other[0], chunk);
        assertRefused(7, other[0], other[1]);
        assertRefused(7, new byte[0], chunk);
        assertRefused(7, header, Arrays.copyOf(chunk, chunk.length - 1));
        assertRefused(7, header, Arrays.copyOf(chunk, chunk.length + 1));
        for (int length = 0; length < header.length; length++) {
            assertRefused(7, Arrays.copyOf(header, length), chunk);
        }
    }

    @Test
    void aKeyGroupOfAnotherSubtaskIsRefused() throws Exception {
        final byte[][] container = container(7);
        final String state = STATE.replace("127", "6");
        final long stage = Native.stageOpen(groupBy().spec, null, 1, 128, state);
        assertThatThrownBy(() -> Native.stageRestore(stage, 7, container[0], new byte[][] {container[1]}))
                .hasMessageContaining("key group 7 does not belong to this subtask, whose key groups are 0 to 6");
        Native.stageClose(stage);
    }

    @Test
    void releasedSnapshotsAreErrors() throws Exception {
        withStage(
                stage -> {
                    final long snapshot = Native.stageSnapshot(stage);
                    Native.snapshotRelease(snapshot);
                    assertThatThrownBy(() -> Native.snapshotRelease(snapshot)).isInstanceOf(NativeException.class);
                    assertThatThrownBy(() -> Native.snapshotEncode(snapshot, 0)).isInstanceOf(NativeException.class);
                    assertThatThrownBy(() -> Native.snapshotKeyGroups(snapshot)).isInstanceOf(NativeException.class);
                    return null;
                });
    }

    @Test
    void theReservedStatesHaveTheirSpecifiedNames() {
        assertThat(Native.stateName(0)).isEqualTo("__streamfusion_canonical_native_state_v1");
        assertThat(Native.stateName(4)).isEqualTo("__streamfusion_canonical_native_state_v1_chunk_3");
    }
}
