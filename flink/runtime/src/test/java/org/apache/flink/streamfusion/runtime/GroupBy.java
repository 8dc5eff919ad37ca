package org.apache.flink.streamfusion.runtime;

import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.binary.BinaryRowData;
import org.apache.flink.table.data.writer.BinaryRowWriter;
import org.apache.flink.table.types.logical.RowType;

/** A stage of {@code SELECT k, COUNT(*), SUM(v) FROM t GROUP BY k} over BIGINT columns, from rows to rows. */
final class GroupBy {

    static final RowType INPUT =
            RowType.of(DataTypes.BIGINT().getLogicalType(), DataTypes.BIGINT().getLogicalType());

    private static final RowType OUTPUT =
            RowType.of(
                    DataTypes.BIGINT().getLogicalType(),
                    DataTypes.BIGINT().notNull().getLogicalType(),
                    DataTypes.BIGINT().getLogicalType());

    private static final String NODE =
            """
            {"json": {"id": 9, "type": "stream-exec-group-aggregate_1",
             "configuration": {"table.exec.mini-batch.enabled": "false", "table.exec.mini-batch.size": "-1"}, "grouping": [0],
             "aggCalls": [
               {"name": "c", "syntax": "FUNCTION_STAR", "internalName": "$COUNT$1", "argList": [], "filterArg": -1,
                "distinct": false, "approximate": false, "ignoreNulls": false, "type": "BIGINT NOT NULL"},
               {"name": "s", "internalName": "$SUM$1", "argList": [1], "filterArg": -1,
                "distinct": false, "approximate": false, "ignoreNulls": false, "type": "BIGINT"}],
             "aggCallNeedRetractions": [false, false], "generateUpdateBefore": false, "needRetraction": false,
             "state": [{"index": 0, "ttl": "%d ms", "name": "groupAggregateState"}],
             "inputProperties": [{"requiredDistribution": {"type": "UNKNOWN"}, "damBehavior": "PIPELINED", "priority": 0}],
             "outputType": "%s", "description": "GroupAggregate(groupBy=[k])"},
             "inputs": [8], "types": ["%s"]}""";

    private GroupBy() {}

    /** The stage; its state lives for so long after it was written, or for ever if that is 0. */
    static StageConfig.Builder stage(long ttlMs) {
        final String node = NODE.formatted(ttlMs, OUTPUT.asSerializableString(), INPUT.asSerializableString());
        return StageConfig.builder("GroupAggregate(groupBy=[k])", NativeTestBase.spec(INPUT, OUTPUT, node, "", "null"))
                .rowInput(INPUT, NativeTestBase.readsAll(INPUT))
                .rowOutput(OUTPUT)
                .stateful();
    }

    /** The same in bundles of so many rows; its state lives for ever. */
    static StageConfig.Builder bundledStage(long rows) {
        final String node = NODE.formatted(0, OUTPUT.asSerializableString(), INPUT.asSerializableString());
        final String bundled =
                node.replace("mini-batch.enabled\": \"false\"", "mini-batch.enabled\": \"true\"")
                        .replace("mini-batch.size\": \"-1\"", "mini-batch.size\": \"" + rows + "\"");
        return StageConfig.builder("GroupAggregate(groupBy=[k])", NativeTestBase.spec(INPUT, OUTPUT, bundled, "", "null"))
                .rowInput(INPUT, NativeTestBase.readsAll(INPUT))
                .rowOutput(OUTPUT)
                .stateful();
    }

    /** The local phase of the same, which keeps no state: rows of accumulators for bundles of so many rows. */
    static StageConfig.Builder localStage(long rows) {
        final String node = NODE.formatted(0, OUTPUT.asSerializableString(), INPUT.asSerializableString());
        final String local =
                node.replace("stream-exec-group-aggregate_1", "stream-exec-local-group-aggregate_1")
                        .replace("mini-batch.enabled\": \"false\"", "mini-batch.enabled\": \"true\"")
                        .replace("mini-batch.size\": \"-1\"", "mini-batch.size\": \"" + rows + "\"")
                        .replace("\"generateUpdateBefore\": false, ", "")
                        .replaceAll("\"state\": \\[.*\\],", "");
        return StageConfig.builder("LocalGroupAggregate(groupBy=[k])", NativeTestBase.spec(INPUT, OUTPUT, local, "", "null"))
                .rowInput(INPUT, NativeTestBase.readsAll(INPUT))
                .rowOutput(OUTPUT)
                .collects();
    }

    /** A row of the result as text, without its kind: key, count and sum. */
    static String text(RowData row) {
        return row.getLong(0) + " " + row.getLong(1) + " " + row.getLong(2);
    }

    /** The key group of a key, by Flink's own classes. */
    static int keyGroup(long key, int maxParallelism) {
        final BinaryRowData row = new BinaryRowData(1);
        final BinaryRowWriter writer = new BinaryRowWriter(row);
        writer.writeLong(0, key);
        writer.complete();
        return KeyGroupRangeAssignment.assignToKeyGroup(row, maxParallelism);
    }
}
