package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.checkpoint.CheckpointType;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.checkpoint.SnapshotType;
import org.apache.flink.runtime.execution.SuppressRestartsException;
import org.apache.flink.runtime.state.CheckpointableKeyedStateBackend;
import org.apache.flink.runtime.state.IncrementalRemoteKeyedStateHandle;
import org.apache.flink.runtime.state.OperatorStateBackend;
import org.apache.flink.runtime.state.SavepointKeyedStateHandle;
import org.apache.flink.runtime.state.StateBackend;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.hashmap.HashMapStateBackend;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;
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

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.IOException;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;

/** Native state in the snapshots of Flink, and back: under any backend, at any parallelism, after any time. */
class NativeStateTest extends NativeStateTestBase {

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
}
