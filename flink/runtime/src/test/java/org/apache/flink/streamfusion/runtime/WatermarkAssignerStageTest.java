package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.streaming.util.OneInputStreamOperatorTestHarness;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.runtime.generated.GeneratedWatermarkGenerator;
import org.apache.flink.table.runtime.generated.WatermarkGenerator;
import org.apache.flink.table.runtime.operators.wmassigners.WatermarkAssignerOperatorFactory;
import org.apache.flink.table.types.logical.RowType;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** A stage that makes watermarks of rows, against Flink's operator: the same rows and events in the same order. */
class WatermarkAssignerStageTest extends NativeTestBase {

    private static final RowType TYPE =
            RowType.of(
                    DataTypes.BIGINT().getLogicalType(),
                    DataTypes.TIMESTAMP(3).getLogicalType(),
                    DataTypes.TIMESTAMP(3).getLogicalType());

    /** Row time in column 1, the watermark in column 2. */
    private static StageConfig stage(long idleTimeoutMs, long latencyMs) {
        final String type = TYPE.asSerializableString();
        final String node =
                """
                {"json": {"id": 9, "type": "stream-exec-watermark-assigner_1", "rowtimeFieldIndex": 1,
                 "watermarkExpr": {"kind": "INPUT_REF", "inputIndex": 2, "type": "TIMESTAMP(3)"},
                 "inputProperties": [{"requiredDistribution": {"type": "UNKNOWN"}, "damBehavior": "PIPELINED", "priority": 0}],
                 "outputType": "%s", "description": "WatermarkAssigner"}, "inputs": [8], "types": ["%s"]}"""
                        .formatted(type, type);
        final String spec =
                spec(TYPE, TYPE, node, "", "null")
                        .replace(
                                "\"config\":{}",
                                "\"config\":{\"table.exec.source.idle-timeout\":\"%d ms\"}".formatted(idleTimeoutMs));
        return StageConfig.builder("WatermarkAssigner", spec)
                .rowInput(TYPE, readsAll(TYPE))
                .rowOutput(TYPE)
                .latencyMs(latencyMs)
                .build();
    }

    private static OneInputStreamOperatorTestHarness<RowData, RowData> stock(long idleTimeoutMs) throws Exception {
        final WatermarkGenerator generator =
                new WatermarkGenerator() {
                    @Override
                    public long extractTimestamp(RowData row) {
                        return Long.MIN_VALUE;
                    }

                    @Override
                    public Long currentWatermark(RowData row) {
                        return row.isNullAt(2) ? null : row.getTimestamp(2, 3).getMillisecond();
                    }
                };
        final GeneratedWatermarkGenerator generated =
                new GeneratedWatermarkGenerator("Generator", "", new Object[0]) {
                    @Override
                    public WatermarkGenerator newInstance(ClassLoader classLoader) {
                        return generator;
                    }
                };
        return new OneInputStreamOperatorTestHarness<>(
                new WatermarkAssignerOperatorFactory(1, idleTimeoutMs, generated), 1, 1, 0);
    }

    private static GenericRowData row(long id, Long rowTime, Long watermark) {
        return GenericRowData.of(id, timestamp(rowTime), timestamp(watermark));
    }

    private static TimestampData timestamp(Long millis) {
        return millis == null ? null : TimestampData.fromEpochMillis(millis);
    }

    private static Object text(Object event) {
        if (event instanceof StreamRecord<?> record) {
            return text(record.getValue());
        }
        return event instanceof RowData row ? (Object) row.getLong(0) : event;
    }

    private static List<Object> texts(Iterable<?> events) {
        final List<Object> texts = new ArrayList<>();
        events.forEach(event -> texts.add(text(event)));
        return texts;
    }

    @ParameterizedTest
    @CsvSource({"200,0,-1", "200,0,0", "200,0,30", "0,0,-1", "0,50,-1", "200,300,-1", "20,500,-1", "100,100,30", "7,3,0"})
    void rowsWatermarksAndStatusesLeaveAsTheyDoOnFlink(long intervalMs, long idleTimeoutMs, long latencyMs) throws Exception {
        for (int seed = 0; seed < 20; seed++) {
            try (var stock = stock(idleTimeoutMs);
                    StageHarness harness = new StageHarness(stage(idleTimeoutMs, latencyMs))) {
                stock.getExecutionConfig().setAutoWatermarkInterval(intervalMs);
                harness.getExecutionConfig().setAutoWatermarkInterval(intervalMs);
                stock.setProcessingTime(1_000);
                harness.setProcessingTime(1_000);
                stock.open();
                harness.open();
                final Random random = new Random(seed);
                long now = 1_000;
                long time = 5_000;
                for (long i = 0; i < 300; i++) {
                    switch (random.nextInt(12)) {
                        case 0, 1 -> {
                            now += random.nextInt(random.nextInt(10) == 0 ? 900 : 60);
                            stock.setProcessingTime(now);
                            harness.setProcessingTime(now);
                        }
                        case 2 -> {
                            final Watermark watermark = new Watermark(i > 270 ? Long.MAX_VALUE : 100 * i);
                            stock.processWatermark(watermark);
                            harness.processWatermark(watermark);
                        }
                        case 3 -> {
                            if (random.nextInt(5) == 0) {
                                final WatermarkStatus status =
                                        random.nextBoolean() ? WatermarkStatus.IDLE : WatermarkStatus.ACTIVE;
                                stock.processWatermarkStatus(status);
                                harness.processWatermarkStatus(status);
                            }
                        }
                        default -> {
                            time += random.nextInt(80) - 25;
                            final GenericRowData row = row(i, time, random.nextInt(8) == 0 ? null : time);
                            stock.processElement(new StreamRecord<>(row));
                            harness.process(row);
                        }
                    }
                }
                stock.endInput();
                harness.endInput();
                stock.getOperator().finish();
                harness.getOperator().finish();
                final List<Object> expected = texts(stock.getOutput());
                assertThat(expected.stream().filter(Watermark.class::isInstance).count()).isGreaterThan(5);
                assertThat(texts(harness.out.events)).isEqualTo(expected);
            }
        }
    }

    @Test
    void aRowWithoutRowTimeFailsTheTaskInFlinksWords() throws Exception {
        try (StageHarness harness = new StageHarness(stage(0, -1))) {
            harness.open();
            harness.process(row(1, 2_000L, 1_000L));
            harness.process(row(2, null, 1_000L));
            assertThatThrownBy(() -> harness.processWatermark(new Watermark(1)))
                    .isExactlyInstanceOf(RuntimeException.class)
                    .hasMessage("RowTime field should not be null, please convert it to a non-null long value.");
            assertThat(texts(harness.out.events)).containsExactly(1L, new Watermark(1_000));
        }
    }

    @Test
    void anIntervalOfZeroNeedsNoTimer() throws Exception {
        try (StageHarness harness = new StageHarness(stage(0, -1))) {
            harness.getExecutionConfig().setAutoWatermarkInterval(0);
            harness.open();
            assertThat(harness.getProcessingTimeService().getNumActiveTimers()).isZero();
        }
    }
}
