package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.runtime.state.StateBackend;
import org.apache.flink.runtime.state.hashmap.HashMapStateBackend;
import org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackend;
import org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackend.PriorityQueueStateType;
import org.apache.flink.streaming.api.operators.BoundedMultiInput;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.RecordAttributes;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.streaming.util.AbstractStreamOperatorTestHarness;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.LongStream;

/** A stage with two inputs: the order of rows and events, and what each input keeps for itself. */
class TwoInputStageTest extends NativeTestBase {

    private static TwoInputHarness fromRows(long bundleRows, long latencyMs) throws Exception {
        final StageConfig config =
                TwoInputHarness.stage(bundleRows)
                        .input(TwoInputHarness.rows())
                        .input(TwoInputHarness.rows())
                        .latencyMs(latencyMs)
                        .build();
        return new TwoInputHarness(config, 1, 0, new HashMapStateBackend());
    }

    private static TwoInputHarness fromFragments(int parallelism, int subtask, String backend) throws Exception {
        final StageConfig config =
                TwoInputHarness.stage(0)
                        .input(StageConfig.Input.fragmented())
                        .input(StageConfig.Input.fragmented())
                        .latencyMs(0)
                        .build();
        return new TwoInputHarness(config, parallelism, subtask, backend(backend));
    }

    private static StateBackend backend(String name) {
        if (name.equals("heap")) {
            return new HashMapStateBackend();
        }
        final EmbeddedRocksDBStateBackend backend = new EmbeddedRocksDBStateBackend();
        if (name.equals("rocksdb with timers on the heap")) {
            backend.setPriorityQueueStateType(PriorityQueueStateType.HEAP);
        }
        return backend;
    }

    @ParameterizedTest
    @ValueSource(longs = {-1, 0, 50})
    void rowsOfBothInputsKeepTheirOrder(long latencyMs) throws Exception {
        try (TwoInputHarness harness = fromRows(0, latencyMs).start(null)) {
            harness.left(1);
            harness.left(2);
            harness.right(2);
            harness.right(3);
            harness.left(3);
            harness.barrier();
            assertThat(harness.events()).containsExactly("+I1,null", "+I2,null", "-D2,null", "+I2,2", "+I3,3");
        }
    }

    @Test
    void smallBatchesOfBothInputsKeepTheirOrder() throws Exception {
        final StageConfig config =
                TwoInputHarness.stage(0)
                        .input(StageConfig.Input.batches())
                        .input(TwoInputHarness.rows())
                        .latencyMs(-1)
                        .build();
        try (FragmentSender sender = new FragmentSender(-1, TwoInputHarness.MAX_PARALLELISM);
                TwoInputHarness harness = new TwoInputHarness(config, 1, 0, new HashMapStateBackend()).start(null)) {
            harness.left(sender.sendWhole(LongStream.of(1, 2)));
            assertThat(harness.events()).as("waits for more").isEmpty();
            harness.right(2);
            assertThat(harness.events()).containsExactly("+I1,null", "+I2,null");
            harness.left(sender.sendWhole(LongStream.of(3)));
            harness.barrier();
            assertThat(harness.events()).containsExactly("+I1,null", "+I2,null", "-D2,null", "+I2,2", "+I3,null");
        }
    }

    @Test
    void aRowOfEitherInputWaitsNoLongerThanTheLatencyBound() throws Exception {
        try (TwoInputHarness harness = fromRows(0, 50).start(null)) {
            harness.right(1);
            harness.setProcessingTime(20);
            harness.left(1);
            harness.setProcessingTime(69);
            assertThat(harness.events()).isEmpty();
            harness.setProcessingTime(70);
            assertThat(harness.events()).containsExactly("+I1,1");
        }
    }

    @Test
    void watermarksAreCombinedAndAStatusCounts() throws Exception {
        try (TwoInputHarness harness = fromRows(0, -1).start(null)) {
            harness.left(1);
            harness.stage().processWatermark1(new Watermark(5));
            harness.stage().processWatermark2(new Watermark(3));
            harness.right(1);
            harness.stage().processWatermarkStatus2(WatermarkStatus.IDLE);
            harness.stage().processWatermarkStatus1(WatermarkStatus.IDLE);
            harness.stage().processWatermarkStatus1(WatermarkStatus.ACTIVE);
            assertThat(harness.events())
                    .containsExactly(
                            "+I1,null",
                            new Watermark(3),
                            "-D1,null",
                            "+I1,1",
                            new Watermark(5),
                            WatermarkStatus.IDLE,
                            WatermarkStatus.ACTIVE);
        }
    }

    @Test
    void recordAttributesGoBehindTheRowsBeforeThem() throws Exception {
        try (TwoInputHarness harness = fromRows(100, -1).start(null)) {
            harness.left(1);
            harness.stage().processRecordAttributes1(new RecordAttributes(true));
            assertThat(harness.events()).as("an open bundle stays open").hasSize(1);
            harness.barrier();
            assertThat(harness.events()).hasSize(2).endsWith("+I1,null");
        }
    }

    @Test
    void aWatermarkOfEitherInputEndsTheBundle() throws Exception {
        try (TwoInputHarness harness = fromRows(100, -1).start(null)) {
            harness.left(1);
            harness.right(1);
            harness.stage().processWatermark1(new Watermark(5));
            assertThat(harness.events()).containsExactly("+I1,1");
            harness.left(2);
            harness.stage().processWatermark2(new Watermark(4));
            assertThat(harness.events()).containsExactly("+I1,1", "+I2,null", new Watermark(4));
            harness.right(2);
            harness.stage().processWatermark2(new Watermark(9));
            assertThat(harness.events())
                    .containsExactly("+I1,1", "+I2,null", new Watermark(4), "-D2,null", "+I2,2", new Watermark(5));
        }
    }

    @Test
    void bothInputsFillOneBundle() throws Exception {
        try (TwoInputHarness harness = fromRows(2, 0).start(null)) {
            harness.left(1);
            assertThat(harness.events()).isEmpty();
            harness.right(1);
            assertThat(harness.events()).containsExactly("+I1,1");
        }
    }

    @Test
    void theBundleEndsInFrontOfABarrierAndStateOfBothInputsComesBack() throws Exception {
        final OperatorSubtaskState snapshot;
        try (TwoInputHarness harness = fromRows(100, -1).start(null)) {
            harness.left(1);
            harness.right(2);
            snapshot = harness.checkpoint();
            assertThat(harness.events()).containsExactly("+I1,null");
        }
        try (TwoInputHarness harness = fromRows(100, -1).start(snapshot)) {
            harness.right(1);
            harness.left(2);
            harness.barrier();
            assertThat(harness.events()).containsExactlyInAnyOrder("-D1,null", "+I1,1", "+I2,2");
        }
    }

    @Test
    void theBundleEndsWhenTheOperatorFinishesAndNotWithTheFirstInput() throws Exception {
        try (TwoInputHarness harness = fromRows(100, -1).start(null)) {
            harness.left(1);
            ((BoundedMultiInput) harness.stage()).endInput(1);
            harness.right(1);
            ((BoundedMultiInput) harness.stage()).endInput(2);
            assertThat(harness.events()).isEmpty();
            harness.stage().finish();
            assertThat(harness.events()).containsExactly("+I1,1");
        }
    }

    @Test
    void fragmentsOfOneInputHoldBackItsEventsAlone() throws Exception {
        try (FragmentSender sender = new FragmentSender(-1, TwoInputHarness.MAX_PARALLELISM);
                TwoInputHarness harness = fromFragments(1, 0, "heap").start(null)) {
            final List<NativeBatch> fragments = sender.send(LongStream.range(0, 20));
            final NativeBatch last = fragments.remove(fragments.size() - 1);
            for (NativeBatch fragment : fragments) {
                harness.left(fragment);
            }
            harness.stage().processWatermark1(new Watermark(5));
            harness.stage().processWatermark2(new Watermark(3));
            harness.stage().processWatermarkStatus2(WatermarkStatus.IDLE);
            assertThat(harness.events()).as("5 has not passed, idle has").containsExactly();
            harness.left(last);
            assertThat(harness.events()).hasSize(21).endsWith(new Watermark(5));
        }
    }

    @Test
    void anInputThatEndsInTheMiddleOfABatchIsAFailureOfThatInput() throws Exception {
        try (FragmentSender sender = new FragmentSender(-1, TwoInputHarness.MAX_PARALLELISM);
                TwoInputHarness harness = fromFragments(1, 0, "heap").start(null)) {
            harness.right(sender.send(LongStream.range(0, 20)).get(0));
            ((BoundedMultiInput) harness.stage()).endInput(1);
            assertThatThrownBy(() -> ((BoundedMultiInput) harness.stage()).endInput(2))
                    .hasMessageContaining("has not arrived completely");
        }
    }

    @ParameterizedTest
    @CsvSource({
        "heap,1,1,true,true", "heap,2,3,true,true", "heap,1,1,true,false", "heap,1,1,false,true", "rocksdb,2,1,true,true",
        "rocksdb with timers on the heap,1,1,true,true", "rocksdb with timers on the heap,2,3,true,true"
    })
    void fragmentsOfBothInputsAreRestoredEachOnItsSide(
            String backend, int before, int after, boolean left, boolean right) throws Exception {
        final List<NativeBatch> lefts = new ArrayList<>();
        final List<NativeBatch> rights = new ArrayList<>();
        final List<OperatorSubtaskState> snapshots = new ArrayList<>();
        try (FragmentSender one = new FragmentSender(-1, TwoInputHarness.MAX_PARALLELISM);
                FragmentSender two = new FragmentSender(-1, TwoInputHarness.MAX_PARALLELISM)) {
            final List<NativeBatch> ofLeft = one.send(LongStream.range(0, 40));
            final List<NativeBatch> ofRight = two.send(LongStream.range(20, 50));
            for (int subtask = 0; subtask < before; subtask++) {
                try (TwoInputHarness harness = fromFragments(before, subtask, backend).start(null)) {
                    final List<NativeBatch> mineLeft = mine(ofLeft, before, subtask);
                    final List<NativeBatch> mineRight = mine(ofRight, before, subtask);
                    final int leftSent = left ? mineLeft.size() / 2 : 0;
                    final int rightSent = right ? mineRight.size() - 1 : 0;
                    for (NativeBatch fragment : mineLeft.subList(0, leftSent)) {
                        harness.left(fragment);
                    }
                    for (NativeBatch fragment : mineRight.subList(0, rightSent)) {
                        harness.right(fragment);
                    }
                    lefts.addAll(mineLeft.subList(leftSent, mineLeft.size()));
                    rights.addAll(mineRight.subList(rightSent, mineRight.size()));
                    snapshots.add(harness.checkpoint());
                    assertThat(harness.events()).isEmpty();
                }
            }
        }
        final OperatorSubtaskState all =
                AbstractStreamOperatorTestHarness.repackageState(snapshots.toArray(new OperatorSubtaskState[0]));
        final List<Object> changes = new ArrayList<>();
        for (int subtask = 0; subtask < after; subtask++) {
            try (TwoInputHarness harness = fromFragments(after, subtask, backend)) {
                harness.start(
                        AbstractStreamOperatorTestHarness.repartitionOperatorState(
                                all, TwoInputHarness.MAX_PARALLELISM, before, after, subtask));
                for (NativeBatch fragment : mine(rights, after, subtask)) {
                    harness.right(fragment);
                }
                for (NativeBatch fragment : mine(lefts, after, subtask)) {
                    harness.left(fragment);
                }
                harness.barrier();
                changes.addAll(harness.events());
            }
        }
        final List<Object> table = new ArrayList<>();
        for (Object change : changes) {
            final String row = change.toString();
            if (row.startsWith("-D")) {
                assertThat(table.remove((Object) row.substring(2))).isTrue();
            } else {
                table.add(row.substring(2));
            }
        }
        assertThat(table)
                .containsExactlyInAnyOrderElementsOf(
                        LongStream.range(0, 40).mapToObj(key -> (Object) (key + "," + (key < 20 ? "null" : key))).toList());
    }

    private static List<NativeBatch> mine(List<NativeBatch> fragments, int parallelism, int subtask) {
        return fragments.stream()
                .filter(
                        fragment ->
                                KeyGroupRangeAssignment.computeOperatorIndexForKeyGroup(
                                                TwoInputHarness.MAX_PARALLELISM, parallelism, fragment.keyGroup())
                                        == subtask)
                .toList();
    }

    @Test
    void fragmentsOfASecondInputAreRefusedByAStageWithOne() throws Exception {
        final OperatorSubtaskState snapshot;
        try (FragmentSender sender = new FragmentSender(-1, TwoInputHarness.MAX_PARALLELISM);
                TwoInputHarness harness = fromFragments(1, 0, "heap").start(null)) {
            harness.right(sender.send(LongStream.range(0, 20)).get(0));
            snapshot = harness.checkpoint();
        }
        final StageConfig config =
                StageConfig.builder("Receiver", passing(FragmentSender.TYPE))
                        .input(StageConfig.Input.fragmented())
                        .rowOutput(FragmentSender.TYPE)
                        .build();
        try (StatefulHarness harness = new StatefulHarness(config)) {
            harness.setRestoredCheckpointId(1);
            assertThatThrownBy(() -> harness.start(snapshot))
                    .hasStackTraceContaining("fragments of an input that the operator does not read them from");
        }
    }
}
