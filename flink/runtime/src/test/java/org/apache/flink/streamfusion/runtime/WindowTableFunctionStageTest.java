package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.metrics.Counter;
import org.apache.flink.runtime.metrics.groups.AbstractMetricGroup;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.OneInputStreamOperatorTestHarness;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.runtime.operators.window.groupwindow.assigners.SlidingWindowAssigner;
import org.apache.flink.table.runtime.operators.window.tvf.operator.AlignedWindowTableFunctionOperator;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.types.RowKind;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.time.Duration;
import java.time.ZoneOffset;
import java.util.List;
import java.util.Map;
import java.util.Random;

/** A stage that gives rows their windows, against Flink's operator: rows without row time, and the clock. */
class WindowTableFunctionStageTest extends NativeTestBase {

    private static final String TIME = "{\"type\": \"TIMESTAMP_WITHOUT_TIME_ZONE\", \"precision\": 3, \"kind\": \"ROWTIME\"}";
    private static final String CLOCK =
            "{\"type\": \"TIMESTAMP_WITH_LOCAL_TIME_ZONE\", \"precision\": 3, \"kind\": \"PROCTIME\"}";

    private static final RowType INPUT =
            RowType.of(DataTypes.BIGINT().getLogicalType(), DataTypes.TIMESTAMP(3).getLogicalType());
    private static final RowType BY_CLOCK =
            RowType.of(DataTypes.BIGINT().getLogicalType(), DataTypes.TIMESTAMP_LTZ(3).getLogicalType());

    private static RowType output(RowType input) {
        return RowType.of(
                input.getTypeAt(0),
                input.getTypeAt(1),
                DataTypes.TIMESTAMP(3).notNull().getLogicalType(),
                DataTypes.TIMESTAMP(3).notNull().getLogicalType(),
                input.getTypeAt(1));
    }

    /** HOP by 3 s, of 10 s. */
    private static StageConfig stage(boolean byRowTime, long latencyMs) {
        final RowType input = byRowTime ? INPUT : BY_CLOCK;
        final RowType output = output(input);
        final String node =
                """
                {"json": {"id": 9, "type": "stream-exec-window-table-function_1",
                 "configuration": {"table.local-time-zone": "UTC"},
                 "windowing": {"strategy": "TimeAttribute", "timeAttributeType": %s, "timeAttributeIndex": 1, "isRowtime": %s,
                 "window": {"type": "HoppingWindow", "size": "PT10S", "slide": "PT3S"}},
                 "inputProperties": [{"requiredDistribution": {"type": "UNKNOWN"}, "damBehavior": "PIPELINED", "priority": 0}],
                 "outputType": "%s", "description": "WindowTableFunction"}, "inputs": [8], "types": ["%s"]}"""
                        .formatted(
                                byRowTime ? TIME : CLOCK,
                                byRowTime,
                                output.asSerializableString(),
                                input.asSerializableString());
        final String spec =
                spec(input, output, node, "", "null")
                        .replace("\"config\":{}", "\"config\":{\"streamfusion.time-zone.UTC\":\"UTC|0|0||\"}");
        return StageConfig.builder("WindowTableFunction", spec)
                .rowInput(input, readsAll(input))
                .rowOutput(output)
                .latencyMs(latencyMs)
                .build();
    }

    private static OneInputStreamOperatorTestHarness<RowData, RowData> stock(boolean byRowTime) throws Exception {
        final SlidingWindowAssigner windows = SlidingWindowAssigner.of(Duration.ofSeconds(10), Duration.ofSeconds(3));
        return new OneInputStreamOperatorTestHarness<>(
                new AlignedWindowTableFunctionOperator(
                        byRowTime ? windows.withEventTime() : windows.withProcessingTime(), 1, ZoneOffset.UTC));
    }

    private static String text(RowData row) {
        final StringBuilder text = new StringBuilder(row.getRowKind().shortString()).append(' ').append(row.getLong(0));
        for (int column = 1; column < 5; column++) {
            text.append(' ').append(row.isNullAt(column) ? null : row.getTimestamp(column, 3));
        }
        return text.toString();
    }

    @ParameterizedTest
    @CsvSource({"true,-1", "true,0", "false,-1", "false,0", "false,700"})
    void rowsLeaveAsTheyDoOnFlink(boolean byRowTime, long latencyMs) throws Exception {
        for (int seed = 0; seed < 10; seed++) {
            try (var stock = stock(byRowTime);
                    StageHarness harness = new StageHarness(stage(byRowTime, latencyMs))) {
                long now = 1_700_000_000_000L;
                stock.setProcessingTime(now);
                harness.setProcessingTime(now);
                stock.open();
                harness.open();
                final Random random = new Random(seed);
                for (long i = 0; i < 200; i++) {
                    now += random.nextInt(3) == 0 ? random.nextInt(2_000) : 0;
                    stock.setProcessingTime(now);
                    harness.setProcessingTime(now);
                    final TimestampData time =
                            !byRowTime || random.nextInt(10) == 0 ? null : TimestampData.fromEpochMillis(now - random.nextInt(9_000));
                    final GenericRowData row = GenericRowData.of(i, time);
                    row.setRowKind(RowKind.values()[random.nextInt(4)]);
                    stock.processElement(new StreamRecord<>(row));
                    harness.process(row);
                }
                harness.endInput();
                final List<String> expected = stock.extractOutputValues().stream().map(row -> text(row)).toList();
                assertThat(expected).hasSizeGreaterThan(500);
                assertThat(harness.out.rows().stream().map(row -> text(row)).toList()).isEqualTo(expected);
            }
        }
    }

    @Test
    void rowsWithoutRowTimeAreCountedUnderFlinksName() throws Exception {
        try (StageHarness harness = new StageHarness(stage(true, -1))) {
            harness.open();
            harness.process(GenericRowData.of(1L, null));
            harness.process(GenericRowData.of(2L, TimestampData.fromEpochMillis(5)));
            harness.process(GenericRowData.of(3L, null));
            harness.endInput();
            assertThat(counter(harness, "numNullRowTimeRecordsDropped").getCount()).isEqualTo(2);
        }
    }

    private static Counter counter(StageHarness harness, String name) throws Exception {
        final var metrics = AbstractMetricGroup.class.getDeclaredField("metrics");
        metrics.setAccessible(true);
        return (Counter) ((Map<?, ?>) metrics.get(harness.getOperator().getMetricGroup())).get(name);
    }
}
