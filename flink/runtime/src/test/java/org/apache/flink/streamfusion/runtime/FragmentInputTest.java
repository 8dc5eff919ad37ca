package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.checkpoint.CheckpointType;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.checkpoint.SavepointType;
import org.apache.flink.runtime.checkpoint.SnapshotType;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.runtime.state.StateBackend;
import org.apache.flink.runtime.state.hashmap.HashMapStateBackend;
import org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackend;
import org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackend.PriorityQueueStateType;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.RecordAttributes;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.streaming.util.AbstractStreamOperatorTestHarness;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import java.util.stream.Stream;

/** Fragments in front of a stage: held watermarks, and checkpoints in the middle of a batch. */
class FragmentInputTest extends NativeTestBase {

    private static final int MAX_PARALLELISM = 128;

    /** A stage that lets small batches wait for so long, or not at all. */
    private static StageConfig receiving(long latencyMs) {
        return StageConfig.builder("Receiver", passing(FragmentSender.TYPE))
                .input(StageConfig.Input.fragmented())
                .rowOutput(FragmentSender.TYPE)
                .latencyMs(latencyMs)
                .build();
    }

    private static StatefulHarness receiver(int parallelism, int subtask, String backend) throws Exception {
        return receiver(parallelism, subtask, backend, 0);
    }

    private static StatefulHarness receiver(int parallelism, int subtask, String backend, long latencyMs)
            throws Exception {
        return new StatefulHarness(receiving(latencyMs), MAX_PARALLELISM, parallelism, subtask).on(backend(backend));
    }

    private static StateBackend backend(String name) {
        switch (name) {
            case "heap":
                return new HashMapStateBackend();
            case "rocksdb":
                return new EmbeddedRocksDBStateBackend();
            default:
                final EmbeddedRocksDBStateBackend backend = new EmbeddedRocksDBStateBackend();
                backend.setPriorityQueueStateType(PriorityQueueStateType.HEAP);
                return backend;
        }
    }

    private static void process(StatefulHarness harness, NativeBatch batch) throws Exception {
        harness.processElement(new StreamRecord<>(batch));
    }

    private static List<Long> values(StatefulHarness harness) {
        return harness.out.rows().stream().map(row -> row.getLong(0)).collect(Collectors.toList());
    }

    private static List<Long> longs(long from, long to) {
        return LongStream.range(from, to).boxed().collect(Collectors.toList());
    }

    @ParameterizedTest
    @ValueSource(longs = {0, 50})
    void whatComesBehindABatchIsHeldUntilAllOfItsFragmentsHaveArrived(long latencyMs) throws Exception {
        try (FragmentSender sender = new FragmentSender(-1, MAX_PARALLELISM);
                StatefulHarness harness = receiver(1, 0, "heap", latencyMs).start(null)) {
            final List<NativeBatch> fragments = sender.send(LongStream.range(0, 20));
            final NativeBatch last = fragments.remove(fragments.size() - 1);
            final RecordAttributes attributes = new RecordAttributes(true);
            for (NativeBatch fragment : fragments) {
                process(harness, fragment);
            }
            harness.processWatermark(new Watermark(5));
            harness.processWatermarkStatus(WatermarkStatus.IDLE);
            harness.processRecordAttributes(attributes);
            harness.processWatermarkStatus(WatermarkStatus.ACTIVE);
            assertThat(harness.out.events).isEmpty();

            process(harness, last);
            assertThat(values(harness)).isEqualTo(longs(0, 20));
            assertThat(harness.out.events.subList(20, harness.out.events.size()))
                    .startsWith(new Watermark(5), WatermarkStatus.IDLE)
                    .endsWith(WatermarkStatus.ACTIVE)
                    .hasSize(4);

            harness.processWatermark(new Watermark(6));
            assertThat(harness.out.events).endsWith(new Watermark(6));
        }
    }

    @Test
    void aBatchThatIsCompleteWaitsForMoreRowsAndGoesBeforeAWatermarkThatIsHeld() throws Exception {
        try (FragmentSender first = new FragmentSender(-1, MAX_PARALLELISM);
                FragmentSender second = new FragmentSender(-1, MAX_PARALLELISM);
                StatefulHarness harness = receiver(1, 0, "heap", 50).start(null)) {
            harness.setProcessingTime(100);
            for (NativeBatch fragment : first.send(LongStream.range(0, 20))) {
                process(harness, fragment);
            }
            assertThat(harness.out.events).as("reassembled, waiting for more rows").isEmpty();
            harness.setProcessingTime(149);
            assertThat(harness.out.events).isEmpty();
            harness.setProcessingTime(150);
            assertThat(values(harness)).isEqualTo(longs(0, 20));

            final List<NativeBatch> fragments = second.send(LongStream.range(40, 60));
            final NativeBatch last = fragments.remove(fragments.size() - 1);
            for (NativeBatch fragment : fragments) {
                process(harness, fragment);
            }
            for (NativeBatch fragment : first.send(LongStream.range(20, 40))) {
                process(harness, fragment);
            }
            assertThat(values(harness)).as("the rows of another sender wait as well").hasSize(20);
            harness.processWatermark(new Watermark(5));
            assertThat(values(harness)).isEqualTo(longs(0, 40));
            assertThat(harness.out.events).hasSize(40);
            process(harness, last);
            assertThat(values(harness)).isEqualTo(longs(0, 60));
            assertThat(harness.out.events).hasSize(61).endsWith(new Watermark(5));
        }
    }

    @Test
    void aBatchThatIsIncompleteAtTheEndOfTheInputIsAFailure() throws Exception {
        try (FragmentSender sender = new FragmentSender(-1, MAX_PARALLELISM);
                StatefulHarness harness = receiver(1, 0, "heap").start(null)) {
            process(harness, sender.send(LongStream.range(0, 20)).get(0));
            assertThatThrownBy(harness::endInput).hasMessageContaining("has not arrived completely");
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"heap", "rocksdb", "rocksdb with timers on the heap"})
    void aPartlyAssembledBatchIsRestored(String backend) throws Exception {
        final List<NativeBatch> onTheirWay;
        final OperatorSubtaskState snapshot;
        final int waiting;
        try (FragmentSender sender = new FragmentSender(-1, MAX_PARALLELISM);
                StatefulHarness harness = receiver(1, 0, backend).start(null)) {
            final List<NativeBatch> fragments = sender.send(LongStream.range(0, 20));
            final int half = fragments.size() / 2;
            for (NativeBatch fragment : fragments.subList(0, half)) {
                process(harness, fragment);
            }
            waiting = fragments.subList(0, half).stream().mapToInt(NativeBatch::rows).sum();
            onTheirWay = fragments.subList(half, fragments.size());
            harness.processWatermark(new Watermark(5));
            snapshot = harness.checkpoint();
            assertThat(harness.out.events).isEmpty();
        }
        try (FragmentSender sender = new FragmentSender(1, MAX_PARALLELISM);
                StatefulHarness harness = receiver(1, 0, backend)) {
            harness.setRestoredCheckpointId(1);
            harness.start(snapshot);
            harness.setProcessingTime(1);
            assertThat(values(harness)).hasSize(waiting);
            // what a failed attempt sent is not waited for: its siblings may have come before the checkpoint
            for (NativeBatch fragment : onTheirWay) {
                process(harness, fragment);
                harness.processWatermark(new Watermark(6));
                assertThat(harness.out.events).endsWith(new Watermark(6));
            }
            assertThat(values(harness)).containsExactlyInAnyOrderElementsOf(longs(0, 20));

            for (NativeBatch fragment : sender.send(LongStream.range(20, 40))) {
                process(harness, fragment);
            }
            assertThat(values(harness).subList(20, 40)).isEqualTo(longs(20, 40));
        }
    }

    @Test
    void restoredFragmentsAreEmittedOnceAlsoIfTheNextCheckpointComesFirst() throws Exception {
        OperatorSubtaskState snapshot;
        try (FragmentSender sender = new FragmentSender(-1, MAX_PARALLELISM);
                StatefulHarness harness = receiver(1, 0, "heap").start(null)) {
            process(harness, sender.send(LongStream.range(0, 20)).get(0));
            snapshot = harness.checkpoint();
        }
        try (StatefulHarness harness = receiver(1, 0, "heap")) {
            harness.setRestoredCheckpointId(1);
            harness.start(snapshot);
            snapshot = harness.checkpoint();
            assertThat(values(harness)).isNotEmpty();
        }
        assertThat(snapshot.getRawKeyedState()).isEmpty();
    }

    static Stream<Arguments> secondSnapshots() {
        return Stream.of("heap", "rocksdb", "rocksdb with timers on the heap")
                .flatMap(
                        backend ->
                                Stream.of(
                                                CheckpointType.CHECKPOINT,
                                                SavepointType.savepoint(SavepointFormatType.CANONICAL),
                                                SavepointType.savepoint(SavepointFormatType.NATIVE))
                                        .map(type -> Arguments.of(backend, type)));
    }

    @ParameterizedTest
    @MethodSource("secondSnapshots")
    void restoredFragmentsAreNotInTheNextSnapshotOfAnyKind(String backend, SnapshotType second) throws Exception {
        OperatorSubtaskState snapshot;
        final int waiting;
        try (FragmentSender sender = new FragmentSender(-1, MAX_PARALLELISM);
                StatefulHarness harness = receiver(1, 0, backend).start(null)) {
            final NativeBatch fragment = sender.send(LongStream.range(0, 20)).get(0);
            waiting = fragment.rows();
            process(harness, fragment);
            snapshot = harness.snapshot(CheckpointType.CHECKPOINT);
            assertThat(harness.out.events).isEmpty();
        }
        try (StatefulHarness harness = receiver(1, 0, backend)) {
            harness.setRestoredCheckpointId(1);
            harness.start(snapshot);
            harness.setProcessingTime(1);
            assertThat(values(harness)).hasSize(waiting);
            snapshot = harness.snapshot(second);
        }
        try (StatefulHarness harness = receiver(1, 0, backend)) {
            harness.setRestoredCheckpointId(2);
            harness.start(snapshot);
            harness.setProcessingTime(1);
            harness.prepareSnapshotPreBarrier(3);
            assertThat(values(harness)).as("rows that came before").isEmpty();
        }
    }

    @ParameterizedTest
    @CsvSource({
        "heap,2,3", "heap,3,2", "heap,1,4", "rocksdb,2,3",
        "rocksdb with timers on the heap,2,3", "rocksdb with timers on the heap,3,2"
    })
    void partlyAssembledBatchesAreRescaled(String backend, int before, int after) throws Exception {
        final List<NativeBatch> onTheirWay = new ArrayList<>();
        final List<OperatorSubtaskState> snapshots = new ArrayList<>();
        final List<Long> arrived = new ArrayList<>();
        try (FragmentSender sender = new FragmentSender(-1, MAX_PARALLELISM)) {
            final List<NativeBatch> fragments = sender.send(LongStream.range(0, 100));
            for (int subtask = 0; subtask < before; subtask++) {
                try (StatefulHarness harness = receiver(before, subtask, backend).start(null)) {
                    final List<NativeBatch> mine = mine(fragments, before, subtask);
                    final int half = mine.size() / 2;
                    for (NativeBatch fragment : mine.subList(0, half)) {
                        process(harness, fragment);
                    }
                    onTheirWay.addAll(mine.subList(half, mine.size()));
                    snapshots.add(harness.checkpoint());
                    arrived.addAll(values(harness));
                }
            }
        }
        assertThat(arrived).isEmpty();
        final OperatorSubtaskState all =
                AbstractStreamOperatorTestHarness.repackageState(snapshots.toArray(new OperatorSubtaskState[0]));
        for (int subtask = 0; subtask < after; subtask++) {
            try (StatefulHarness harness = receiver(after, subtask, backend)) {
                harness.setRestoredCheckpointId(1);
                harness.start(
                        AbstractStreamOperatorTestHarness.repartitionOperatorState(
                                all, MAX_PARALLELISM, before, after, subtask));
                for (NativeBatch fragment : mine(onTheirWay, after, subtask)) {
                    process(harness, fragment);
                }
                harness.prepareSnapshotPreBarrier(2);
                arrived.addAll(values(harness));
            }
        }
        assertThat(arrived).containsExactlyInAnyOrderElementsOf(longs(0, 100));
    }

    private static List<NativeBatch> mine(List<NativeBatch> fragments, int parallelism, int subtask) {
        return fragments.stream()
                .filter(
                        fragment ->
                                KeyGroupRangeAssignment.computeOperatorIndexForKeyGroup(
                                                MAX_PARALLELISM, parallelism, fragment.keyGroup())
                                        == subtask)
                .collect(Collectors.toList());
    }

    @Test
    void noTimersOfFlinkAreTakenForFragmentsWhenTheTimerServiceChanges() throws Exception {
        final OperatorSubtaskState snapshot;
        try (StatefulHarness harness = receiver(1, 0, "rocksdb with timers on the heap").start(null)) {
            snapshot = harness.checkpoint();
        }
        try (StatefulHarness harness = receiver(1, 0, "rocksdb")) {
            harness.setRestoredCheckpointId(1);
            harness.start(snapshot);
            harness.setProcessingTime(1);
            assertThat(harness.out.rows()).isEmpty();
            assertThat(harness.snapshot(CheckpointType.CHECKPOINT).getRawKeyedState()).isEmpty();
        }
    }

    @Test
    void aFragmentThatIsDamagedOnItsWayIsAFailure() throws Exception {
        try (FragmentSender sender = new FragmentSender(-1, MAX_PARALLELISM);
                StatefulHarness harness = receiver(1, 0, "heap").start(null)) {
            final NativeBatch fragment = sender.send(LongStream.range(0, 20)).get(0);
            final byte[] bytes = fragment.encoded();
            bytes[bytes.length - 1] ^= 1;
            assertThatThrownBy(
                            () -> process(harness, NativeBatch.ofBytes(bytes, bytes.length, fragment.rows(), fragment.keyGroup())))
                    .isInstanceOf(NativeException.class)
                    .hasMessageContaining("checksum");
        }
    }
}
