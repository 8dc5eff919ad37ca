package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.RecordAttributes;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.util.function.ThrowingConsumer;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;
import java.util.stream.Stream;

/** Small batches wait for more rows, but never longer than they may. */
class GatheredInputTest extends NativeTestBase {

    private static final RowType TYPE = RowType.of(DataTypes.BIGINT().getLogicalType());

    private static StageHarness harness(long latencyMs) throws Exception {
        final StageConfig config =
                StageConfig.builder("Stage", passing(TYPE))
                        .rowOutput(TYPE)
                        .maxBatchRows(100)
                        .latencyMs(latencyMs)
                        .build();
        final StageHarness harness = new StageHarness(config);
        harness.open();
        return harness;
    }

    private static NativeBatch batch(long from, long to) {
        try (RowEntry entry =
                new RowEntry(EntryMemory.open(passing(TYPE), 1000), TYPE, ReadFields.all(TYPE), 1000)) {
            LongStream.range(from, to).forEach(value -> entry.write(GenericRowData.of(value)));
            final long handle = entry.finish();
            try {
                return ofEncoded(NativeBatch.encode(handle), (int) (to - from), NativeBatch.NO_KEY_GROUP);
            } finally {
                Native.batchRelease(handle);
            }
        }
    }

    private static List<Long> values(StageHarness harness) {
        return harness.out.rows().stream().map(row -> row.getLong(0)).toList();
    }

    static Stream<Map.Entry<String, ThrowingConsumer<StageHarness, Exception>>> whatMustNotOvertakeThem() {
        final Map<String, ThrowingConsumer<StageHarness, Exception>> events =
                Map.of(
                        "watermark", harness -> harness.processWatermark(new Watermark(1)),
                        "watermark status", harness -> harness.processWatermarkStatus(WatermarkStatus.IDLE),
                        "record attributes", harness -> harness.processRecordAttributes(new RecordAttributes(true)),
                        "barrier", harness -> harness.prepareSnapshotPreBarrier(1),
                        "end of input", harness -> harness.endInput(),
                        "latency bound", harness -> harness.setProcessingTime(50));
        return events.entrySet().stream();
    }

    @ParameterizedTest
    @MethodSource("whatMustNotOvertakeThem")
    void smallBatchesWaitButNothingOvertakesThem(Map.Entry<String, ThrowingConsumer<StageHarness, Exception>> event)
            throws Exception {
        try (StageHarness harness = harness(50)) {
            harness.process(batch(0, 3));
            harness.process(batch(3, 5));
            harness.setProcessingTime(49);
            assertThat(harness.out.events).isEmpty();
            event.getValue().accept(harness);
            assertThat(values(harness)).containsExactly(0L, 1L, 2L, 3L, 4L);
            if (harness.out.events.size() > 5) {
                assertThat(harness.out.events.get(5)).isNotInstanceOf(RowData.class);
            }
        }
    }

    @Test
    void aLargeBatchGoesThroughAtOnceBehindWhatWaits() throws Exception {
        try (StageHarness harness = harness(50)) {
            harness.process(batch(0, 3));
            harness.process(batch(3, 53));
            assertThat(values(harness)).isEqualTo(LongStream.range(0, 53).boxed().toList());
        }
    }

    @Test
    void enoughRowsGoThroughAtOnce() throws Exception {
        try (StageHarness harness = harness(-1)) {
            for (int i = 0; i < 9; i++) {
                harness.process(batch(10 * i, 10 * i + 10));
            }
            assertThat(harness.out.events).isEmpty();
            harness.process(batch(90, 100));
            assertThat(values(harness)).isEqualTo(LongStream.range(0, 100).boxed().toList());
        }
    }

    @Test
    void withoutLatencyNothingWaits() throws Exception {
        try (StageHarness harness = harness(0)) {
            harness.process(batch(0, 1));
            assertThat(values(harness)).containsExactly(0L);
        }
    }

    @Test
    void theLatencyBoundCountsFromTheFirstRowThatWaits() throws Exception {
        try (StageHarness harness = harness(50)) {
            harness.process(batch(0, 1));
            harness.setProcessingTime(30);
            harness.process(batch(1, 2));
            harness.setProcessingTime(50);
            assertThat(values(harness)).containsExactly(0L, 1L);
            harness.process(batch(2, 3));
            harness.setProcessingTime(99);
            assertThat(values(harness)).hasSize(2);
            harness.setProcessingTime(100);
            assertThat(values(harness)).hasSize(3);
        }
    }
}
