package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.streaming.util.OneInputStreamOperatorTestHarness;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.operators.wmassigners.ProcTimeMiniBatchAssignerOperator;
import org.apache.flink.table.runtime.operators.wmassigners.RowTimeMiniBatchAssginerOperator;
import org.apache.flink.table.types.logical.RowType;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** A stage that marks where bundles end, against Flink's operators: the same rows and watermarks in the same order. */
class MiniBatchAssignerStageTest extends NativeTestBase {

    private static final RowType TYPE = RowType.of(DataTypes.BIGINT().getLogicalType());
    private static final long INTERVAL_MS = 100;

    private static StageConfig stage(String mode, long latencyMs) {
        final String type = TYPE.asSerializableString();
        final String node =
                """
                {"json": {"id": 9, "type": "stream-exec-mini-batch-assigner_1",
                 "miniBatchInterval": {"interval": %d, "mode": "%s"},
                 "inputProperties": [{"requiredDistribution": {"type": "UNKNOWN"}, "damBehavior": "PIPELINED", "priority": 0}],
                 "outputType": "%s", "description": "MiniBatchAssigner"}, "inputs": [8], "types": ["%s"]}"""
                        .formatted(INTERVAL_MS, mode, type, type);
        return StageConfig.builder("MiniBatchAssigner", spec(TYPE, TYPE, node, "", "null"))
                .rowInput(TYPE, readsAll(TYPE))
                .rowOutput(TYPE)
                .latencyMs(latencyMs)
                .build();
    }

    private static OneInputStreamOperator<RowData, RowData> stock(String mode) {
        return mode.equals("ProcTime")
                ? new ProcTimeMiniBatchAssignerOperator(INTERVAL_MS)
                : new RowTimeMiniBatchAssginerOperator(INTERVAL_MS);
    }

    private static Object text(Object event) {
        if (event instanceof StreamRecord<?> record) {
            return text(record.getValue());
        }
        return event instanceof RowData row ? (Object) row.getLong(0) : event;
    }

    @ParameterizedTest
    @CsvSource({"ProcTime,0", "ProcTime,30", "ProcTime,-1", "RowTime,0", "RowTime,30", "RowTime,-1"})
    void rowsAndWatermarksLeaveAsTheyDoOnFlink(String mode, long latencyMs) throws Exception {
        for (int seed = 0; seed < 20; seed++) {
            try (var stock = new OneInputStreamOperatorTestHarness<>(stock(mode));
                    StageHarness harness = new StageHarness(stage(mode, latencyMs))) {
                final long start = 1_000; // of an interval: before its first timer Flink asks the clock at each row
                stock.setProcessingTime(start);
                harness.setProcessingTime(start);
                stock.open();
                harness.open();
                final Random random = new Random(seed);
                long now = start;
                long watermark = 0;
                for (long i = 0; i < 200; i++) {
                    switch (random.nextInt(5)) {
                        case 0 -> {
                            now += random.nextInt(random.nextInt(10) == 0 ? 400 : 40);
                            stock.setProcessingTime(now);
                            harness.setProcessingTime(now);
                        }
                        case 1 -> {
                            watermark += random.nextInt(60);
                            stock.processWatermark(watermark);
                            harness.processWatermark(watermark);
                        }
                        default -> {
                            stock.processElement(new StreamRecord<>(GenericRowData.of(i)));
                            harness.process(GenericRowData.of(i));
                        }
                    }
                }
                if (random.nextBoolean()) {
                    stock.processWatermark(Watermark.MAX_WATERMARK);
                    harness.processWatermark(Watermark.MAX_WATERMARK);
                }
                stock.endInput();
                harness.endInput();
                stock.getOperator().finish();
                harness.getOperator().finish();
                final List<Object> expected = stock.getOutput().stream().map(event -> text(event)).toList();
                assertThat(expected.stream().filter(Watermark.class::isInstance).count()).isGreaterThan(5);
                assertThat(harness.out.events.stream().map(event -> text(event)).toList()).isEqualTo(expected);
            }
        }
    }

    @Test
    void oneTimerServesAllIntervals() throws Exception {
        try (StageHarness harness = new StageHarness(stage("ProcTime", -1))) {
            harness.setProcessingTime(1_010);
            harness.open();
            final List<Integer> timers = new ArrayList<>();
            for (long now = 1_010; now < 2_000; now += 45) {
                harness.setProcessingTime(now);
                harness.process(GenericRowData.of(now));
                timers.add(harness.getProcessingTimeService().getNumActiveTimers());
            }
            assertThat(timers).containsOnly(1);
        }
    }

    @Test
    void aStageThatDoesNotAskForTheTimeHasNoTimer() throws Exception {
        try (StageHarness harness = new StageHarness(stage("RowTime", -1))) {
            harness.setProcessingTime(1_010);
            harness.open();
            harness.process(GenericRowData.of(1L));
            assertThat(harness.getProcessingTimeService().getNumActiveTimers()).isZero();
        }
    }

    @Test
    void openingEmitsNothingAndAStatusPassesAtOnce() throws Exception {
        try (StageHarness harness = new StageHarness(stage("ProcTime", -1))) {
            harness.setProcessingTime(1_010);
            harness.open();
            assertThat(harness.out.events).isEmpty();
            harness.process(GenericRowData.of(1L));
            harness.processWatermarkStatus(WatermarkStatus.IDLE);
            assertThat(harness.out.events.stream().map(event -> text(event)).toList())
                    .containsExactly(new Watermark(1_000), 1L, WatermarkStatus.IDLE);
        }
    }
}
