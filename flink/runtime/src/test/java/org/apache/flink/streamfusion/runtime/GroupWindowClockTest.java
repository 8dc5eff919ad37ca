package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.KeyedOneInputStreamOperatorTestHarness;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.runtime.dataview.StateDataViewStore;
import org.apache.flink.table.runtime.generated.NamespaceAggsHandleFunction;
import org.apache.flink.table.runtime.operators.window.TimeWindow;
import org.apache.flink.table.runtime.operators.window.groupwindow.operator.WindowOperatorBuilder;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/**
 * GROUP BY with a window of processing time in it, against Flink's operator under one clock. The clock is even and windows end with odd
 * milliseconds, so that no row comes in the millisecond of a timer, at whose beginning a harness fires it, and a job at its end.
 */
class GroupWindowClockTest extends NativeTestBase {

    private static final LogicalType BIGINT = DataTypes.BIGINT().getLogicalType();
    private static final LogicalType COUNT = DataTypes.BIGINT().notNull().getLogicalType();
    private static final LogicalType BORDER = DataTypes.TIMESTAMP(3).notNull().getLogicalType();

    private static final RowType INPUT = RowType.of(BIGINT, BIGINT, DataTypes.TIMESTAMP_LTZ(3).getLogicalType());
    private static final RowType OUTPUT = RowType.of(BIGINT, COUNT, BIGINT, BORDER, BORDER);

    private enum Window {
        TUMBLE("\"kind\": \"TUMBLING\", \"isTimeWindow\": true, \"size\": \"PT0.010S\""),
        HOP("\"kind\": \"SLIDING\", \"isTimeWindow\": true, \"size\": \"PT0.010S\", \"slide\": \"PT0.004S\""),
        SESSION("\"kind\": \"SESSION\", \"gap\": \"PT0.006S\"");

        private final String json;

        Window(String json) {
            this.json = json;
        }

        private WindowOperatorBuilder stock() {
            final WindowOperatorBuilder builder =
                    WindowOperatorBuilder.builder().withInputFields(INPUT.getChildren().toArray(LogicalType[]::new));
            final Duration size = Duration.ofMillis(10);
            return switch (this) {
                case TUMBLE -> builder.tumble(size).withProcessingTime();
                case HOP -> builder.sliding(size, Duration.ofMillis(4)).withProcessingTime();
                case SESSION -> builder.session(Duration.ofMillis(6)).withProcessingTime();
            };
        }

        private StageConfig stage(int batchRows) {
            final String clock = "{\"type\": \"TIMESTAMP_WITH_LOCAL_TIME_ZONE\", \"precision\": 3, \"kind\": \"PROCTIME\"}";
            final String reference = "\"reference\": {\"name\": \"w$\", \"type\": " + clock + "}";
            final String node =
                    """
                    {"json": {"id": 9, "type": "stream-exec-group-window-aggregate_1",
                     "configuration": {"table.exec.mini-batch.enabled": "false", "table.exec.mini-batch.size": "-1",
                                       "table.local-time-zone": "UTC"},
                     "grouping": [0],
                     "aggCalls": [
                       {"name": "c", "syntax": "FUNCTION_STAR", "internalName": "$COUNT$1", "argList": [], "filterArg": -1,
                        "distinct": false, "approximate": false, "ignoreNulls": false, "type": "BIGINT NOT NULL"},
                       {"name": "s", "internalName": "$SUM$1", "argList": [1], "filterArg": -1,
                        "distinct": false, "approximate": false, "ignoreNulls": false, "type": "BIGINT"}],
                     "window": {"alias": {"name": "w$", "type": %1$s},
                       "timeField": {"fieldName": "f2", "fieldIndex": 2, "inputIndex": 0, "fieldType": %1$s}, %2$s},
                     "namedWindowProperties": [
                       {"name": "w$start", "property": {"kind": "WindowStart", %3$s}},
                       {"name": "w$end", "property": {"kind": "WindowEnd", %3$s}}],
                     "needRetraction": false,
                     "inputProperties": [{"requiredDistribution": {"type": "UNKNOWN"}, "damBehavior": "PIPELINED", "priority": 0}],
                     "outputType": "%4$s", "description": "GroupWindowAggregate"}, "inputs": [8], "types": ["%5$s"]}"""
                            .formatted(clock, json, reference, OUTPUT.asSerializableString(), INPUT.asSerializableString());
            final String spec =
                    spec(INPUT, OUTPUT, node, "", "null")
                            .replace("\"config\":{}", "\"config\":{\"streamfusion.time-zone.UTC\":\"UTC|0|0||\"}");
            return StageConfig.builder("GroupWindowAggregate", spec)
                    .rowInput(INPUT, readsAll(INPUT))
                    .rowOutput(OUTPUT)
                    .stateful()
                    .maxBatchRows(batchRows)
                    .build();
        }
    }

    @ParameterizedTest
    @EnumSource(Window.class)
    void windowsGoByTheClock(Window window) throws Exception {
        for (int batchRows : new int[] {1, 3, 4096}) {
            for (int seed = 0; seed < 2; seed++) {
                check(window, batchRows, seed);
            }
        }
    }

    @SuppressWarnings({"rawtypes", "unchecked"})
    private static void check(Window window, int batchRows, int seed) throws Exception {
        final LogicalType[] results = {COUNT, BIGINT};
        final OneInputStreamOperator<RowData, RowData> operator =
                (OneInputStreamOperator) window.stock()
                        .aggregate(
                                new CountAndSum(),
                                (left, right) -> left.equals(right),
                                results,
                                results,
                                new LogicalType[] {BORDER, BORDER})
                        .build();
        try (var stock =
                        new KeyedOneInputStreamOperatorTestHarness<RowData, RowData, RowData>(
                                operator, TimedJoinHarness.key(), TimedJoinHarness.KEY_TYPE, 128, 1, 0);
                StatefulHarness natively = new StatefulHarness(window.stage(batchRows))) {
            stock.setup(InternalTypeInfo.of(OUTPUT).toSerializer());
            long now = 1_700_000_000_000L;
            stock.setProcessingTime(now);
            natively.setProcessingTime(now);
            stock.open();
            natively.open();
            final Random random = new Random(seed);
            for (int step = 0; step < 250; step++) {
                if (random.nextInt(3) == 0) {
                    // a batch has one time, so it ends before that goes on
                    natively.prepareSnapshotPreBarrier(0);
                    now += 2L * random.nextInt(random.nextInt(8) == 0 ? 12 : 3);
                    stock.setProcessingTime(now);
                    natively.setProcessingTime(now);
                    assertThat(rows(natively.out.events)).as("%s, seed %d, at %d", window, seed, now)
                            .isEqualTo(rows(stock.getOutput()));
                    natively.out.events.clear();
                    stock.getOutput().clear();
                }
                final GenericRowData row =
                        GenericRowData.of(
                                random.nextInt(8) == 0 ? null : (long) random.nextInt(3),
                                random.nextInt(5) == 0 ? null : (long) random.nextInt(100),
                                null);
                stock.processElement(new StreamRecord<>(row));
                natively.processElement(new StreamRecord<>(row));
            }
        }
    }

    /** The rows among what went out, in any order: between keys Flink has none. */
    private static List<String> rows(Iterable<?> events) {
        final List<String> rows = new ArrayList<>();
        for (Object event : events) {
            final Object value = event instanceof StreamRecord<?> record ? record.getValue() : event;
            if (value instanceof RowData row) {
                rows.add(
                        String.join(
                                " ",
                                row.getRowKind().shortString(),
                                row.isNullAt(0) ? "NULL" : Long.toString(row.getLong(0)),
                                Long.toString(row.getLong(1)),
                                row.isNullAt(2) ? "NULL" : Long.toString(row.getLong(2)),
                                row.getTimestamp(3, 3).toString(),
                                row.getTimestamp(4, 3).toString()));
            }
        }
        rows.sort(null);
        return rows;
    }

    /** COUNT(*) and SUM of the second column, the start and the end of the window. */
    private static final class CountAndSum implements NamespaceAggsHandleFunction<TimeWindow> {
        private static final long serialVersionUID = 1L;

        private long count;
        private Long sum;

        @Override
        public void open(StateDataViewStore store) {}

        @Override
        public void setAccumulators(TimeWindow window, RowData accumulators) {
            count = accumulators.getLong(0);
            sum = accumulators.isNullAt(1) ? null : accumulators.getLong(1);
        }

        @Override
        public void accumulate(RowData row) {
            count++;
            if (!row.isNullAt(1)) {
                sum = (sum == null ? 0 : sum) + row.getLong(1);
            }
        }

        @Override
        public void retract(RowData row) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void merge(TimeWindow window, RowData other) {
            count += other.getLong(0);
            if (!other.isNullAt(1)) {
                sum = (sum == null ? 0 : sum) + other.getLong(1);
            }
        }

        @Override
        public RowData createAccumulators() {
            return GenericRowData.of(0L, null);
        }

        @Override
        public RowData getAccumulators() {
            return GenericRowData.of(count, sum);
        }

        @Override
        public RowData getValue(TimeWindow window) {
            return GenericRowData.of(
                    count, sum, TimestampData.fromEpochMillis(window.getStart()), TimestampData.fromEpochMillis(window.getEnd()));
        }

        @Override
        public void cleanup(TimeWindow window) {}

        @Override
        public void close() {}
    }
}
