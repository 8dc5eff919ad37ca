package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.operators.testutils.MockEnvironmentBuilder;
import org.apache.flink.streamfusion.runtime.JoinCase.Shape;
import org.apache.flink.streamfusion.runtime.JoinCase.Step;
import org.apache.flink.streaming.api.operators.TwoInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.AbstractStreamOperatorTestHarness;
import org.apache.flink.streaming.util.KeyedTwoInputStreamOperatorTestHarness;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.operators.join.FlinkJoinType;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.util.InstantiationUtil;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * The join of a native stage against Flink's own operators, over one sequence of rows from both inputs: duplicates, NULL keys, deletes
 * of rows that are not there. The changelogs are the same row for row; only where one row matches several, their order is
 * not compared, for in Flink it is that of a hash map.
 */
class JoinParityTest extends NativeTestBase {

    private static final int STEPS = 150;
    private static final int[] BATCH_ROWS = {1, 2, 7, 4096};

    /** Outputs of the bundles, or of the rows, of one run: those of each are together. */
    private record Changelog(List<List<String>> groups) {

        /** What does not depend on the order of a hash map: over matches of one row, or over keys of one bundle. */
        List<List<String>> comparable(JoinCase join) {
            final List<List<String>> comparable = new ArrayList<>();
            for (List<String> group : groups) {
                final List<String> sorted = new ArrayList<>(group);
                if (join.miniBatchSize() > 0) {
                    sorted.sort(Comparator.comparing(JoinParityTest::key));
                } else if (join.left() != Shape.ONE || join.right() != Shape.ONE) {
                    sorted.sort(Comparator.naturalOrder());
                }
                comparable.add(sorted);
            }
            return comparable;
        }
    }

    /** The join key of a row of the output. */
    private static String key(String row) {
        final String[] columns = row.split("\\|");
        return columns[2].equals("NULL") ? columns[4] : columns[1];
    }

    @ParameterizedTest
    @EnumSource(FlinkJoinType.class)
    void rowByRow(FlinkJoinType type) throws Exception {
        long seed = 0;
        for (Shape left : Shape.values()) {
            for (Shape right : Shape.values()) {
                for (boolean condition : new boolean[] {false, true}) {
                    check(new JoinCase(type, left, right, seed % 2 == 0, condition, 0, 0), seed++);
                }
            }
        }
    }

    @ParameterizedTest
    @EnumSource(value = FlinkJoinType.class, names = {"INNER", "LEFT", "RIGHT", "FULL"})
    void bundleByBundle(FlinkJoinType type) throws Exception {
        long seed = 100;
        for (long size : new long[] {1, 2, 7, 50, 4096}) {
            for (boolean condition : new boolean[] {false, true}) {
                check(new JoinCase(type, Shape.ONE, Shape.ONE, seed % 3 == 0, condition, 0, size), seed++);
            }
        }
    }

    @ParameterizedTest
    @EnumSource(FlinkJoinType.class)
    void withATimeToLive(FlinkJoinType type) throws Exception {
        check(new JoinCase(type, Shape.ONE, Shape.SEVERAL, true, true, 3_600_000, 0), 7);
    }

    private static void check(JoinCase join, long seed) throws Exception {
        final List<Step> steps = JoinCase.steps(STEPS, seed);
        final List<List<String>> expected = stock(join, steps).comparable(join);
        for (int batchRows : BATCH_ROWS) {
            for (boolean restored : new boolean[] {false, true}) {
                // a checkpoint ends a bundle
                if (restored && (join.miniBatchSize() > 0 || batchRows != 7)) {
                    continue;
                }
                final List<String> rows = natively(join, steps, batchRows, restored);
                final List<List<String>> actual = grouped(rows, expected).comparable(join);
                assertThat(actual).as("%s in batches of %d, restored: %s", join, batchRows, restored).isEqualTo(expected);
            }
        }
        assertThat(Native.liveHandles()).isZero();
    }

    private static Changelog stock(JoinCase join, List<Step> steps) throws Exception {
        final List<List<String>> groups = new ArrayList<>();
        try (KeyedTwoInputStreamOperatorTestHarness<RowData, RowData, RowData, RowData> harness =
                new KeyedTwoInputStreamOperatorTestHarness<>(
                        join.stock(), JoinCase.key(0), JoinCase.key(0), JoinCase.KEY_TYPE, 128, 1, 0)) {
            harness.setup(InternalTypeInfo.of(join.output()).toSerializer());
            harness.open();
            for (Step step : steps) {
                if (step.left()) {
                    harness.processElement1(new StreamRecord<>(step.row()));
                } else {
                    harness.processElement2(new StreamRecord<>(step.row()));
                }
                groups.add(drain(harness));
            }
            harness.prepareSnapshotPreBarrier(1);
            groups.add(drain(harness));
        }
        return new Changelog(groups);
    }

    private static List<String> drain(KeyedTwoInputStreamOperatorTestHarness<?, ?, ?, RowData> harness) {
        final List<String> rows = new ArrayList<>();
        for (RowData row : harness.extractOutputValues()) {
            rows.add(JoinCase.text(row));
        }
        harness.getOutput().clear();
        return rows;
    }

    /** The rows in groups as large as those of the other changelog, and what is left over in one more. */
    private static Changelog grouped(List<String> rows, List<List<String>> like) {
        final List<List<String>> groups = new ArrayList<>();
        int from = 0;
        for (List<String> group : like) {
            final int to = Math.min(from + group.size(), rows.size());
            groups.add(rows.subList(from, to));
            from = to;
        }
        if (from < rows.size()) {
            groups.add(rows.subList(from, rows.size()));
        }
        return new Changelog(groups);
    }

    private static List<String> natively(JoinCase join, List<Step> steps, int batchRows, boolean restored)
            throws Exception {
        final List<String> rows = new ArrayList<>();
        OperatorSubtaskState state = null;
        final int half = restored ? steps.size() / 2 : steps.size();
        try (Harness harness = new Harness(join, batchRows)) {
            harness.start(null).process(steps.subList(0, half));
            if (restored) {
                harness.prepareSnapshotPreBarrier(1);
                state = harness.snapshot(1, 0);
            } else {
                harness.prepareSnapshotPreBarrier(1);
            }
            rows.addAll(harness.rows());
        }
        if (restored) {
            try (Harness harness = new Harness(join, batchRows)) {
                harness.start(state).process(steps.subList(half, steps.size()));
                harness.prepareSnapshotPreBarrier(2);
                rows.addAll(harness.rows());
            }
        }
        return rows;
    }

    /** A stage that is just the join. */
    private static final class Harness extends AbstractStreamOperatorTestHarness<Object> {

        private final CollectingOutput out = new CollectingOutput(batch -> { });

        Harness(JoinCase join, int batchRows) throws Exception {
            super(
                    InstantiationUtil.clone(NativeStageOperatorFactory.of(stage(join, batchRows)).withOperatorUid("join")),
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

        Harness start(OperatorSubtaskState state) throws Exception {
            if (state != null) {
                initializeState(state);
            }
            open();
            return this;
        }

        @SuppressWarnings("unchecked")
        void process(List<Step> steps) throws Exception {
            final var join = (TwoInputStreamOperator<Object, Object, Object>) (Object) getOperator();
            for (Step step : steps) {
                final StreamRecord<Object> element = new StreamRecord<>(step.row());
                if (step.left()) {
                    join.setKeyContextElement1(element);
                    join.processElement1(element);
                } else {
                    join.setKeyContextElement2(element);
                    join.processElement2(element);
                }
            }
        }

        List<String> rows() {
            return out.rows().stream().map(JoinCase::text).toList();
        }
    }

    private static StageConfig stage(JoinCase join, int batchRows) {
        final String reads = readsAll(JoinCase.INPUT);
        final String spec =
                """
                {"input": "%1$s", "entry": true, "reads": %2$s,
                 "second": {"input": "%1$s", "entry": true, "reads": %2$s},
                 "nodes": [%3$s], "hosts": [], "exchange": null, "output": "rows", "writes": %4$s,
                 "config": {"table.exec.mini-batch.enabled": "%5$s", "table.exec.mini-batch.size": "%6$d"}}"""
                        .formatted(
                                JoinCase.INPUT.asSerializableString(),
                                reads,
                                node(join),
                                readsAll(join.output()),
                                join.miniBatchSize() > 0,
                                Math.max(join.miniBatchSize(), 1));
        return StageConfig.builder("Join", spec)
                .rowInput(JoinCase.INPUT, reads)
                .rowInput(JoinCase.INPUT, reads)
                .rowOutput(join.output())
                .stateful()
                .maxBatchRows(batchRows)
                .build();
    }

    private static String node(JoinCase join) {
        final String less =
                """
                {"kind": "CALL", "syntax": "BINARY", "internalName": "$<$1", "operands": [
                  {"kind": "INPUT_REF", "inputIndex": 1, "type": "BIGINT NOT NULL"},
                  {"kind": "INPUT_REF", "inputIndex": 4, "type": "BIGINT NOT NULL"}], "type": "BOOLEAN NOT NULL"}""";
        return """
            {"json": {"id": 9, "type": "stream-exec-join_1",
             "joinSpec": {"joinType": "%s", "leftKeys": [0], "rightKeys": [0], "filterNulls": [%s], "nonEquiCondition": %s},
             "leftUpsertKeys": %s, "rightUpsertKeys": %s,
             "state": [{"index": 0, "ttl": "%6$d ms", "name": "leftState"}, {"index": 1, "ttl": "%6$d ms", "name": "rightState"}],
             "inputProperties": [
               {"requiredDistribution": {"type": "UNKNOWN"}, "damBehavior": "PIPELINED", "priority": 0},
               {"requiredDistribution": {"type": "UNKNOWN"}, "damBehavior": "PIPELINED", "priority": 0}],
             "outputType": "%7$s", "description": "Join"},
             "inputs": [7, 8], "types": ["%8$s", "%8$s"]}"""
                .formatted(
                        join.type().name(),
                        join.filterNulls(),
                        join.condition() ? less : "null",
                        upsertKeys(join.left()),
                        upsertKeys(join.right()),
                        join.ttlMs(),
                        join.output().asSerializableString(),
                        JoinCase.INPUT.asSerializableString());
    }

    private static String upsertKeys(Shape shape) {
        return switch (shape) {
            case ONE -> "[[0]]";
            case UNIQUE -> "[[1]]";
            case SEVERAL -> "null";
        };
    }
}
