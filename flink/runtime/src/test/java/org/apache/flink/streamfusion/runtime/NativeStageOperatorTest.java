package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.streaming.api.operators.ChainingStrategy;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.RecordAttributes;
import org.apache.flink.streaming.runtime.streamrecord.RecordAttributesBuilder;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.types.RowKind;

import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;

/** When a stage operator emits what, and that it frees what it opened. */
class NativeStageOperatorTest extends NativeTestBase {

    private static final RowType BIGINT = RowType.of(DataTypes.BIGINT().getLogicalType());

    private static StageConfig.Builder rowsToRows(RowType type) {
        return StageConfig.builder("Stage", passing(type)).rowInput(type, readsAll(type)).rowOutput(type);
    }

    private static RowData row(long value) {
        return GenericRowData.of(value);
    }

    private static List<Object> printed(StageHarness harness) {
        return harness.out.events.stream()
                .map(event -> event instanceof RowData ? ((RowData) event).getLong(0) : event)
                .toList();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 7, 8192})
    void everyTypePassesHoweverRowsAreCut(int batchRows) throws Exception {
        final List<RowData> rows = EveryType.rows(100, batchRows);
        try (StageHarness harness = new StageHarness(rowsToRows(EveryType.TYPE).maxBatchRows(batchRows).build())) {
            harness.open();
            rows.forEach(harness::process);
            harness.endInput();
            EntryExitTest.assertSameRows(EveryType.TYPE, harness.out.rows(), rows);
        }
    }

    @Test
    void aStageThatReadsNoFieldStillCountsRows() throws Exception {
        final StageConfig config =
                StageConfig.builder("Stage", readingNothing(BIGINT))
                        .rowInput(BIGINT, readsNothing(BIGINT))
                        .rowOutput(BIGINT)
                        .build();
        try (StageHarness harness = new StageHarness(config)) {
            harness.open();
            harness.process(row(1));
            harness.process(GenericRowData.ofKind(RowKind.DELETE, 2L));
            harness.endInput();
            assertThat(harness.out.rows()).extracting(Object::toString).containsExactly("+I(null)", "-D(null)");
        }
    }

    @Test
    void batchesPassFromStageToStageByHandle() throws Exception {
        passFromStageToStage(batch -> batch);
    }

    @Test
    void batchesPassFromStageToStageThroughTheNetwork() throws Exception {
        passFromStageToStage(NativeStageOperatorTest::throughTheNetwork);
    }

    private void passFromStageToStage(UnaryOperator<NativeBatch> edge) throws Exception {
        final List<RowData> rows = EveryType.rows(100, 3);
        final StageConfig middle = StageConfig.builder("Middle", passing(EveryType.TYPE)).build();
        final StageConfig last =
                StageConfig.builder("Last", passing(EveryType.TYPE)).rowOutput(EveryType.TYPE).build();
        try (StageHarness exit = new StageHarness(last);
                StageHarness pass = new StageHarness(middle, batch -> exit.process(edge.apply(batch)));
                StageHarness entry = new StageHarness(entering(), batch -> pass.process(edge.apply(batch)))) {
            exit.open();
            pass.open();
            entry.open();
            rows.forEach(entry::process);
            entry.endInput();
            pass.endInput();
            exit.endInput();
            EntryExitTest.assertSameRows(EveryType.TYPE, exit.out.rows(), rows);
        }
    }

    private static StageConfig entering() {
        return StageConfig.builder("First", passing(EveryType.TYPE))
                .rowInput(EveryType.TYPE, readsAll(EveryType.TYPE))
                .maxBatchRows(30)
                .build();
    }

    private static NativeBatch throughTheNetwork(NativeBatch batch) {
        try {
            final DataOutputSerializer out = new DataOutputSerializer(64);
            NativeBatchSerializer.INSTANCE.serialize(batch, out);
            return NativeBatchSerializer.INSTANCE.deserialize(new DataInputDeserializer(out.getCopyOfBuffer()));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Test
    void severalReadersMayBorrowOneBatch() throws Exception {
        final List<RowData> rows = EveryType.rows(10, 3);
        final StageConfig last =
                StageConfig.builder("Last", passing(EveryType.TYPE)).rowOutput(EveryType.TYPE).build();
        try (StageHarness one = new StageHarness(last);
                StageHarness two = new StageHarness(last)) {
            one.open();
            two.open();
            final Consumer<NativeBatch> both =
                    batch -> {
                        one.process(batch);
                        two.process(batch);
                    };
            try (StageHarness entry = new StageHarness(entering(), both)) {
                entry.open();
                rows.forEach(entry::process);
                entry.endInput();
            }
            one.endInput();
            two.endInput();
            EntryExitTest.assertSameRows(EveryType.TYPE, one.out.rows(), rows);
            EntryExitTest.assertSameRows(EveryType.TYPE, two.out.rows(), rows);
        }
    }

    @Test
    void anExchangeThatNothingIsConnectedToHasOneChannel() throws Exception {
        final List<Integer> keyGroups = new ArrayList<>();
        final StageConfig config =
                StageConfig.builder("Stage", splitting(BIGINT, 0)).rowInput(BIGINT, readsAll(BIGINT)).exchange().build();
        try (StageHarness harness = new StageHarness(config, batch -> keyGroups.add(batch.keyGroup()))) {
            harness.open();
            harness.process(row(42));
            harness.endInput();
        }
        assertThat(keyGroups).containsExactly(69); // where stock Flink puts BIGINT 42
    }

    @Test
    void nothingOvertakesTheRows() throws Exception {
        try (StageHarness harness = new StageHarness(rowsToRows(BIGINT).build())) {
            harness.open();
            harness.process(row(1));
            harness.processWatermark(10);
            harness.process(row(2));
            harness.processWatermarkStatus(WatermarkStatus.IDLE);
            harness.process(row(3));
            final RecordAttributes attributes = new RecordAttributesBuilder(List.of()).setBacklog(true).build();
            harness.processRecordAttributes(attributes);
            harness.process(row(4));
            assertThat(printed(harness))
                    .containsExactly(1L, new Watermark(10), 2L, WatermarkStatus.IDLE, 3L, attributes);
        }
    }

    @Test
    void aBarrierFindsNoRowWaiting() throws Exception {
        try (StageHarness harness = new StageHarness(rowsToRows(BIGINT).build())) {
            harness.open();
            harness.process(row(1));
            assertThat(printed(harness)).isEmpty();
            harness.prepareSnapshotPreBarrier(1);
            assertThat(printed(harness)).containsExactly(1L);
            harness.snapshot(1, 0);
            harness.prepareSnapshotPreBarrier(2);
            assertThat(printed(harness)).containsExactly(1L);
        }
    }

    @Test
    void theEndOfTheInputFindsNoRowWaiting() throws Exception {
        try (StageHarness harness = new StageHarness(rowsToRows(BIGINT).build())) {
            harness.open();
            harness.process(row(1));
            harness.endInput();
            assertThat(printed(harness)).containsExactly(1L);
            harness.getOperator().finish();
            assertThat(printed(harness)).containsExactly(1L);
        }
    }

    @Test
    void aFullBatchIsEmittedAtOnce() throws Exception {
        try (StageHarness harness = new StageHarness(rowsToRows(BIGINT).maxBatchRows(2).build())) {
            harness.open();
            harness.process(row(1));
            assertThat(printed(harness)).isEmpty();
            harness.process(row(2));
            harness.process(row(3));
            assertThat(printed(harness)).containsExactly(1L, 2L);
        }
    }

    @Test
    void noRowWaitsLongerThanTheLatencyBound() throws Exception {
        try (StageHarness harness = new StageHarness(rowsToRows(BIGINT).maxBatchRows(2).latencyMs(100).build())) {
            harness.setProcessingTime(1000);
            harness.open();
            harness.process(row(1));
            harness.setProcessingTime(1099);
            assertThat(printed(harness)).isEmpty();
            harness.setProcessingTime(1100);
            assertThat(printed(harness)).containsExactly(1L);

            harness.process(row(2)); // due at 1200, but full before that
            harness.setProcessingTime(1150);
            harness.process(row(3));
            harness.process(row(4)); // due at 1250
            assertThat(timers(harness)).as("one timer serves many batches").isOne();
            harness.setProcessingTime(1249);
            assertThat(printed(harness)).containsExactly(1L, 2L, 3L);
            harness.setProcessingTime(1250);
            assertThat(printed(harness)).containsExactly(1L, 2L, 3L, 4L);
            assertThat(timers(harness)).isZero();
        }
    }

    private static int timers(StageHarness harness) {
        return harness.getProcessingTimeService().getNumActiveTimers();
    }

    @Test
    void withALatencyBoundOfZeroNoRowWaits() throws Exception {
        try (StageHarness harness = new StageHarness(rowsToRows(BIGINT).latencyMs(0).build())) {
            harness.open();
            harness.process(row(1));
            assertThat(printed(harness)).containsExactly(1L);
            harness.process(row(2));
            assertThat(printed(harness)).containsExactly(1L, 2L);
        }
    }

    @Test
    void rowsThatWaitAreFreedWhenTheTaskIsCancelled() throws Exception {
        try (StageHarness harness = new StageHarness(rowsToRows(EveryType.TYPE).build())) {
            harness.open();
            EveryType.rows(20, 1).forEach(harness::process);
        }
    }

    @Test
    void aStageThatFailsToOpenFreesWhatItOpened() throws Exception {
        final StageConfig config =
                StageConfig.builder("Stage", passing(BIGINT)).rowInput(BIGINT, "[null]").rowOutput(BIGINT).build();
        try (StageHarness harness = new StageHarness(config)) {
            assertThatThrownBy(harness::open).hasMessageContaining("the fields to read have 0");
        }
        try (StageHarness harness = new StageHarness(StageConfig.builder("Stage", "nonsense").build())) {
            assertThatThrownBy(harness::open).isInstanceOf(NativeException.class);
        }
    }

    @Test
    void aConsumerThatFailsLeaksNothing() throws Exception {
        final Consumer<NativeBatch> failing =
                batch -> {
                    throw new IllegalArgumentException("downstream");
                };
        try (StageHarness harness = new StageHarness(entering(), failing)) {
            harness.open();
            EveryType.rows(20, 1).forEach(harness::process);
            assertThatThrownBy(harness::endInput).isInstanceOf(IllegalArgumentException.class);
        }
    }

    @Test
    void nothingGoesOnAfterALatencyTimerThatFailed() throws Exception {
        final Consumer<NativeBatch> failing =
                batch -> {
                    throw new IllegalArgumentException("downstream");
                };
        final RowType type = RowType.of(DataTypes.STRING().getLogicalType());
        final StageConfig config =
                StageConfig.builder("Stage", passing(type)).rowInput(type, readsAll(type)).latencyMs(10).build();
        final RowData row = GenericRowData.of(StringData.fromString("a"));
        final RowData notUtf8 = GenericRowData.of(StringData.fromBytes(new byte[] {(byte) 0xff}));
        try (StageHarness output = new StageHarness(config, failing);
                StageHarness entry = new StageHarness(config)) {
            failsInTheTimer(output, row, "downstream");
            // Here the library has taken the memory back, so that a row more would be written to nowhere.
            failsInTheTimer(entry, notUtf8, "Stage: ");
        }
    }

    private static void failsInTheTimer(StageHarness harness, RowData row, String message) throws Exception {
        harness.setProcessingTime(1000);
        harness.open();
        harness.process(row);
        assertThatThrownBy(() -> harness.setProcessingTime(1010)).hasMessageContaining(message);
        final List<ThrowingCallable> calls =
                List.of(
                        () -> harness.process(row),
                        () -> harness.processWatermark(1),
                        () -> harness.processWatermarkStatus(WatermarkStatus.IDLE),
                        () -> harness.processRecordAttributes(new RecordAttributesBuilder(List.of()).build()),
                        () -> harness.prepareSnapshotPreBarrier(1),
                        harness::endInput,
                        () -> harness.getOperator().finish());
        for (ThrowingCallable call : calls) {
            assertThatThrownBy(call).hasMessageContaining(message);
        }
        assertThat(harness.out.events).isEmpty();
    }

    @Test
    void batchesForTheNetworkAreSmall() throws Exception {
        final RowType type = RowType.of(DataTypes.STRING().getLogicalType());
        final List<Integer> rows = new ArrayList<>();
        final StageConfig config =
                StageConfig.builder("Stage", passing(type)).rowInput(type, readsAll(type)).build();
        try (StageHarness harness = new StageHarness(config, batch -> rows.add(batch.rows()))) {
            harness.open();
            for (int i = 0; i < 5; i++) {
                harness.process(GenericRowData.of(StringData.fromString("a".repeat(1 << 20))));
            }
            assertThat(rows).containsExactly(4);
        }
    }

    @Test
    void stagesMayBeChainedToWhateverIsBeforeThem() {
        assertThat(NativeStageOperatorFactory.of(rowsToRows(BIGINT).build()).getChainingStrategy())
                .isEqualTo(ChainingStrategy.ALWAYS);
    }
}
