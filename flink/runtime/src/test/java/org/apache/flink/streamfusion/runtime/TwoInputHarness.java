package org.apache.flink.streamfusion.runtime;

import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.operators.testutils.MockEnvironmentBuilder;
import org.apache.flink.runtime.state.StateBackend;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.AbstractStreamOperatorTestHarness;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.TwoInputStreamOperator;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.util.InstantiationUtil;

import java.util.List;

/** One subtask of {@code SELECT l.k, r.k FROM l LEFT JOIN r ON l.k = r.k} over BIGINT keys, shipped, keyed and opened as in a task. */
final class TwoInputHarness extends AbstractStreamOperatorTestHarness<Object> {

    static final int MAX_PARALLELISM = 128;

    private static final RowType INPUT = FragmentSender.TYPE;
    private static final RowType OUTPUT =
            RowType.of(DataTypes.BIGINT().getLogicalType(), DataTypes.BIGINT().getLogicalType());

    final CollectingOutput out = new CollectingOutput(batch -> { });

    TwoInputHarness(StageConfig config, int parallelism, int subtask, StateBackend backend) throws Exception {
        super(
                InstantiationUtil.clone(NativeStageOperatorFactory.of(config).withOperatorUid("pairs")),
                new MockEnvironmentBuilder()
                        .setTaskName("Join")
                        .setManagedMemorySize(32 << 20)
                        .setMaxParallelism(MAX_PARALLELISM)
                        .setParallelism(parallelism)
                        .setSubtaskIndex(subtask)
                        .build());
        setStateBackend(backend);
        setOutputCreator(serializer -> out);
        this.config.setStatePartitioner(0, KeyGroupSelector.INSTANCE);
        this.config.setStatePartitioner(1, KeyGroupSelector.INSTANCE);
        this.config.setStateKeySerializer(KeyGroupSerializer.INSTANCE);
        this.config.serializeAllConfigs();
    }

    /** The join in bundles of so many rows, or without if that is 0; its inputs are to be added, left and right. */
    static StageConfig.Builder stage(long bundleRows) {
        final String type = INPUT.asSerializableString();
        final String keys = bundleRows > 0 ? ", \"leftUpsertKeys\": [[0]], \"rightUpsertKeys\": [[0]]" : "";
        final String node =
                """
                {"json": {"id": 9, "type": "stream-exec-join_1",
                 "joinSpec": {"joinType": "LEFT", "leftKeys": [0], "rightKeys": [0], "filterNulls": [true], "nonEquiCondition": null}%s,
                 "state": [{"index": 0, "ttl": "0 ms", "name": "leftState"}, {"index": 1, "ttl": "0 ms", "name": "rightState"}],
                 "inputProperties": [{"requiredDistribution": {"type": "UNKNOWN"}, "damBehavior": "PIPELINED", "priority": 0},
                  {"requiredDistribution": {"type": "UNKNOWN"}, "damBehavior": "PIPELINED", "priority": 0}],
                 "outputType": "%s", "description": "Join"}, "inputs": [7, 8], "types": ["%s", "%s"]}"""
                        .formatted(keys, OUTPUT.asSerializableString(), type, type);
        final String second = "\"second\":{\"input\":\"%s\",\"entry\":true,\"reads\":[{}]},".formatted(type);
        final String config =
                "\"config\":{\"table.exec.mini-batch.enabled\":\"%s\",\"table.exec.mini-batch.size\":\"%d\"}"
                        .formatted(bundleRows > 0, bundleRows);
        final String spec = NativeTestBase.spec(INPUT, OUTPUT, node, "", "null").replace("\"config\":{}", config);
        return StageConfig.builder("Join", "{" + second + spec.substring(1)).rowOutput(OUTPUT).stateful();
    }

    static StageConfig.Input rows() {
        return StageConfig.Input.rows(INPUT, NativeTestBase.readsAll(INPUT));
    }

    /** Restores, if there is something to restore, and opens. */
    TwoInputHarness start(OperatorSubtaskState state) throws Exception {
        if (state != null) {
            setRestoredCheckpointId(1);
            initializeState(state);
        }
        open();
        return this;
    }

    TwoInputStreamOperator<Object, Object, Object> stage() {
        return operator(getOperator());
    }

    @SuppressWarnings("unchecked")
    private static TwoInputStreamOperator<Object, Object, Object> operator(Object operator) {
        return (TwoInputStreamOperator<Object, Object, Object>) operator;
    }

    void left(Object value) throws Exception {
        stage().processElement1(new StreamRecord<>(value));
    }

    void right(Object value) throws Exception {
        stage().processElement2(new StreamRecord<>(value));
    }

    void left(long key) throws Exception {
        left(GenericRowData.of(key));
    }

    void right(long key) throws Exception {
        right(GenericRowData.of(key));
    }

    void barrier() throws Exception {
        ((AbstractStreamOperator<?>) getOperator()).prepareSnapshotPreBarrier(1);
    }

    OperatorSubtaskState checkpoint() throws Exception {
        barrier();
        return snapshot(1, 0);
    }

    /** What has been emitted: rows as text, events as they are. */
    List<Object> events() {
        return out.events.stream().map(event -> event instanceof RowData row ? (Object) text(row) : event).toList();
    }

    private static String text(RowData row) {
        return row.getRowKind().shortString()
                + (row.isNullAt(0) ? "null" : row.getLong(0))
                + ","
                + (row.isNullAt(1) ? "null" : row.getLong(1));
    }

    /** Closes the operator. Unlike a task, the harness finishes it before, which one that failed refuses. */
    @Override
    public void close() {
        try {
            super.close();
        } catch (Exception e) {
            try {
                getOperator().close();
                getEnvironment().close();
            } catch (Exception closing) {
                throw new IllegalStateException(closing);
            }
        }
    }
}
