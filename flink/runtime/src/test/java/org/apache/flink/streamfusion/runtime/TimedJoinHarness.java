package org.apache.flink.streamfusion.runtime;

import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.operators.testutils.MockEnvironmentBuilder;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.TwoInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.AbstractStreamOperatorTestHarness;
import org.apache.flink.streaming.util.KeyedTwoInputStreamOperatorTestHarness;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.data.binary.BinaryRowData;
import org.apache.flink.table.data.writer.BinaryRowWriter;
import org.apache.flink.table.runtime.generated.GeneratedJoinCondition;
import org.apache.flink.table.runtime.generated.JoinCondition;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.TimestampKind;
import org.apache.flink.table.types.logical.TimestampType;
import org.apache.flink.table.types.logical.VarCharType;
import org.apache.flink.types.RowKind;
import org.apache.flink.util.InstantiationUtil;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * What the tests of joins with a condition on time share: rows of both inputs among watermarks and a clock, for Flink's operator and
 * for a stage that is just the join.
 */
final class TimedJoinHarness {

    static final int[] BATCH_ROWS = {1, 2, 7, 4096};

    /** Key, row time, number, text. */
    static final RowType INPUT =
            RowType.of(
                    new LogicalType[] {
                        new BigIntType(),
                        new TimestampType(true, TimestampKind.ROWTIME, 3),
                        new BigIntType(false),
                        new VarCharType(VarCharType.MAX_LENGTH)
                    },
                    new String[] {"k", "t", "u", "v"});

    static final RowType OUTPUT =
            RowType.of(
                    Stream.concat(INPUT.getChildren().stream(), INPUT.getChildren().stream()).toArray(LogicalType[]::new),
                    IntStream.range(0, 8).mapToObj(column -> "c" + column).toArray(String[]::new));

    static final TypeInformation<RowData> KEY_TYPE = InternalTypeInfo.ofFields(new BigIntType());

    private TimedJoinHarness() {}

    /** A row of one input, or a watermark of both (input 0) or of one of them (counted from 1), or the time. */
    record Step(int input, RowData row, long time) {
        boolean isRow() {
            return row != null;
        }
    }

    /** What came of a step: rows, then the watermark that went on, if one did. */
    record Outcome(List<String> rows, Long watermark) {}

    static KeySelector<RowData, RowData> key() {
        return row -> {
            final BinaryRowData key = new BinaryRowData(1);
            final BinaryRowWriter writer = new BinaryRowWriter(key);
            if (row.isNullAt(0)) {
                writer.setNullAt(0);
            } else {
                writer.writeLong(0, row.getLong(0));
            }
            writer.complete();
            return key;
        };
    }

    /** Rows of both inputs in any order of time around what the watermark or the clock has come to; kinds are those of either input. */
    static List<Step> steps(int count, long seed, boolean clock, RowKind[] leftKinds, RowKind[] rightKinds) {
        final Random random = new Random(seed);
        final List<Step> steps = new ArrayList<>();
        long now = 1000;
        for (int i = 0; i < count; i++) {
            if (random.nextInt(6) == 0) {
                now += random.nextInt(9);
                steps.add(new Step(0, null, now));
            }
            final int input = random.nextInt(2);
            final RowKind[] kinds = input == 0 ? leftKinds : rightKinds;
            final GenericRowData row = new GenericRowData(kinds[random.nextInt(kinds.length)], 4);
            row.setField(0, random.nextInt(10) == 0 ? null : (long) random.nextInt(3));
            row.setField(1, TimestampData.fromEpochMillis(now + random.nextInt(40) - 20));
            row.setField(2, (long) random.nextInt(5));
            row.setField(3, random.nextInt(8) == 0 ? null : StringData.fromString("v" + i));
            steps.add(new Step(input, row, 0));
        }
        steps.add(new Step(0, null, clock ? now + 10_000 : Long.MAX_VALUE));
        return steps;
    }

    private static String text(RowData row) {
        final StringBuilder text = new StringBuilder(row.getRowKind().shortString());
        for (int column = 0; column < 8; column++) {
            text.append('|');
            if (row.isNullAt(column)) {
                text.append("NULL");
            } else if (column % 4 == 1) {
                text.append(row.getTimestamp(column, 3));
            } else {
                text.append(column % 4 == 3 ? row.getString(column) : row.getLong(column));
            }
        }
        return text.toString();
    }

    /** What Flink's operator makes of the steps, one by one; at a step it is restored from a checkpoint, unless that is negative. */
    static List<Outcome> stock(
            Supplier<TwoInputStreamOperator<RowData, RowData, RowData>> operator,
            List<Step> steps,
            boolean clock,
            int restoredAt)
            throws Exception {
        final List<Outcome> outcomes = new ArrayList<>();
        OperatorSubtaskState state = null;
        int from = 0;
        for (int end : ends(steps, restoredAt)) {
            try (KeyedTwoInputStreamOperatorTestHarness<RowData, RowData, RowData, RowData> harness =
                    new KeyedTwoInputStreamOperatorTestHarness<>(operator.get(), key(), key(), KEY_TYPE, 128, 1, 0)) {
                harness.setup(InternalTypeInfo.of(OUTPUT).toSerializer());
                if (state != null) {
                    harness.initializeState(state);
                }
                if (clock) {
                    harness.setProcessingTime(last(steps, from));
                }
                harness.open();
                for (Step step : steps.subList(from, end)) {
                    feed(harness, step, clock);
                    outcomes.add(outcome(harness.getOutput()));
                    harness.getOutput().clear();
                }
                if (end < steps.size()) {
                    harness.prepareSnapshotPreBarrier(1);
                    state = harness.snapshot(1, 0);
                }
            }
            from = end;
        }
        return outcomes;
    }

    private static void feed(
            KeyedTwoInputStreamOperatorTestHarness<RowData, RowData, RowData, RowData> harness, Step step, boolean clock)
            throws Exception {
        if (!step.isRow() && clock) {
            harness.setProcessingTime(step.time());
        } else if (!step.isRow()) {
            final Watermark watermark = new Watermark(step.time());
            switch (step.input()) {
                case 0 -> harness.processBothWatermarks(watermark);
                case 1 -> harness.processWatermark1(watermark);
                default -> harness.processWatermark2(watermark);
            }
        } else {
            // as behind an exchange
            final var serializer = InternalTypeInfo.of(INPUT).toRowSerializer();
            final StreamRecord<RowData> row = new StreamRecord<>(serializer.toBinaryRow(step.row()).copy());
            if (step.input() == 0) {
                harness.processElement1(row);
            } else {
                harness.processElement2(row);
            }
        }
    }

    private static int[] ends(List<Step> steps, int restoredAt) {
        return restoredAt < 0 ? new int[] {steps.size()} : new int[] {restoredAt, steps.size()};
    }

    private static Outcome outcome(Iterable<?> events) {
        final List<String> rows = new ArrayList<>();
        Long watermark = null;
        for (Object event : events) {
            if (event instanceof Watermark passed) {
                watermark = passed.getTimestamp();
            } else if (event instanceof StreamRecord<?> record) {
                rows.add(text((RowData) record.getValue()));
            } else if (event instanceof RowData row) {
                rows.add(text(row));
            }
        }
        return new Outcome(rows, watermark);
    }

    /**
     * What a stage that is just the join makes of the steps, in batches of so many rows: one outcome for each step that is no row, with
     * what comes of the rows before it.
     */
    static List<Outcome> natively(
            String node, String config, List<Step> steps, int batchRows, boolean clock, int restoredAt) throws Exception {
        final List<Outcome> outcomes = new ArrayList<>();
        final List<Object> carried = new ArrayList<>();
        OperatorSubtaskState state = null;
        int from = 0;
        for (int end : ends(steps, restoredAt)) {
            try (Stage stage = new Stage(node, config, batchRows)) {
                if (clock) {
                    stage.setProcessingTime(last(steps, from));
                }
                stage.out.events.addAll(carried);
                stage.start(state).process(steps.subList(from, end), clock, outcomes);
                if (end < steps.size()) {
                    ((AbstractStreamOperator<?>) (Object) stage.getOperator()).prepareSnapshotPreBarrier(1);
                    state = stage.snapshot(1, 0);
                    carried.addAll(stage.out.events);
                }
            }
            from = end;
        }
        return outcomes;
    }

    private static long last(List<Step> steps, int before) {
        return steps.subList(0, before).stream().filter(step -> !step.isRow()).mapToLong(Step::time).max().orElse(0);
    }

    /**
     * Rows of the outcomes of steps, those of one step in this order as far as it tells them apart, each with the watermark behind it;
     * {@code outcomes} may be those of whole runs.
     */
    static List<Outcome> comparable(
            List<Step> steps, List<Outcome> stock, List<Outcome> outcomes, Comparator<String> order) {
        final List<Outcome> comparable = new ArrayList<>();
        int next = 0;
        int run = 0;
        for (int i = 0; i < steps.size(); i++) {
            final boolean isRow = steps.get(i).isRow();
            final Outcome outcome = outcomes.get(outcomes == stock ? i : run);
            List<String> of = outcome.rows();
            if (outcomes != stock) {
                // as many as those of stock, and what is left over at the end of the run
                final int end = Math.min(next + stock.get(i).rows().size(), of.size());
                of = of.subList(next, isRow ? end : of.size());
                next = isRow ? end : 0;
                run += isRow ? 0 : 1;
            }
            comparable.add(new Outcome(of.stream().sorted(order).toList(), isRow ? null : outcome.watermark()));
        }
        return comparable;
    }

    private static final class Stage extends AbstractStreamOperatorTestHarness<Object> {

        private final CollectingOutput out = new CollectingOutput(batch -> { });

        Stage(String node, String options, int batchRows) throws Exception {
            super(
                    InstantiationUtil.clone(NativeStageOperatorFactory.of(config(node, options, batchRows)).withOperatorUid("join")),
                    new MockEnvironmentBuilder()
                            .setTaskName("Join")
                            .setManagedMemorySize(32 << 20)
                            .setMaxParallelism(128)
                            .setParallelism(1)
                            .setSubtaskIndex(0)
                            .build());
            setOutputCreator(serializer -> out);
            config.setStatePartitioner(0, KeyGroupSelector.INSTANCE);
            config.setStatePartitioner(1, KeyGroupSelector.INSTANCE);
            config.setStateKeySerializer(KeyGroupSerializer.INSTANCE);
            config.serializeAllConfigs();
        }

        Stage start(OperatorSubtaskState state) throws Exception {
            if (state != null) {
                setRestoredCheckpointId(1);
                initializeState(state);
            }
            open();
            return this;
        }

        @SuppressWarnings("unchecked")
        void process(List<Step> steps, boolean clock, List<Outcome> outcomes) throws Exception {
            final var join = (TwoInputStreamOperator<Object, Object, Object>) (Object) getOperator();
            for (Step step : steps) {
                if (step.isRow()) {
                    final StreamRecord<Object> element = new StreamRecord<>(step.row());
                    if (step.input() == 0) {
                        join.setKeyContextElement1(element);
                        join.processElement1(element);
                    } else {
                        join.setKeyContextElement2(element);
                        join.processElement2(element);
                    }
                    continue;
                }
                if (clock) {
                    // a batch has one time, so it ends before that goes on
                    ((AbstractStreamOperator<?>) (Object) getOperator()).prepareSnapshotPreBarrier(1);
                    setProcessingTime(step.time());
                } else {
                    if (step.input() != 2) {
                        join.processWatermark1(new Watermark(step.time()));
                    }
                    if (step.input() != 1) {
                        join.processWatermark2(new Watermark(step.time()));
                    }
                }
                outcomes.add(outcome(out.events));
                out.events.clear();
            }
        }
    }

    private static StageConfig config(String node, String options, int batchRows) {
        final String reads = NativeTestBase.readsAll(INPUT);
        final String spec =
                """
                {"input": "%1$s", "entry": true, "reads": %2$s,
                 "second": {"input": "%1$s", "entry": true, "reads": %2$s},
                 "nodes": [{"json": %3$s, "inputs": [7, 8], "types": ["%1$s", "%1$s"]}],
                 "hosts": [], "exchange": null, "output": "rows", "writes": %4$s, "config": %5$s}"""
                        .formatted(INPUT.asSerializableString(), reads, node, NativeTestBase.readsAll(OUTPUT), options);
        return StageConfig.builder("Join", spec)
                .rowInput(INPUT, reads)
                .rowInput(INPUT, reads)
                .rowOutput(OUTPUT)
                .stateful()
                .maxBatchRows(batchRows)
                .build();
    }

    /** The JSON of a node with these properties of its own. */
    static String node(String type, String properties) {
        return """
            {"id": 9, "type": "stream-exec-%s_1", %s,
             "inputProperties": [
               {"requiredDistribution": {"type": "UNKNOWN"}, "damBehavior": "PIPELINED", "priority": 0},
               {"requiredDistribution": {"type": "UNKNOWN"}, "damBehavior": "PIPELINED", "priority": 0}],
             "outputType": "%s", "description": "Join"}"""
                .formatted(type, properties, OUTPUT.asSerializableString());
    }

    /** A condition on the numbers of both rows, or none. */
    static String joinSpec(String type, boolean filterNulls, boolean condition) {
        final String less =
                """
                {"kind": "CALL", "syntax": "BINARY", "internalName": "$<$1", "operands": [
                  {"kind": "INPUT_REF", "inputIndex": 2, "type": "BIGINT NOT NULL"},
                  {"kind": "INPUT_REF", "inputIndex": 6, "type": "BIGINT NOT NULL"}], "type": "BOOLEAN NOT NULL"}""";
        return """
            {"joinType": "%s", "leftKeys": [0], "rightKeys": [0], "filterNulls": [%s], "nonEquiCondition": %s}"""
                .formatted(type, filterNulls, condition ? less : "null");
    }

    /** The condition of {@link #joinSpec} as Flink's operators have it. */
    static final class Less extends GeneratedJoinCondition {
        private static final long serialVersionUID = 1L;
        private final boolean condition;

        Less(boolean condition) {
            super("Less", "", new Object[0]);
            this.condition = condition;
        }

        @Override
        public JoinCondition newInstance(ClassLoader classLoader) {
            return new Instance(condition);
        }

        private static final class Instance extends org.apache.flink.api.common.functions.AbstractRichFunction
                implements JoinCondition {
            private static final long serialVersionUID = 1L;
            private final boolean condition;

            private Instance(boolean condition) {
                this.condition = condition;
            }

            @Override
            public boolean apply(RowData left, RowData right) {
                return !condition || left.getLong(2) < right.getLong(2);
            }
        }
    }
}
