package org.apache.flink.streamfusion.runtime;

import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.checkpoint.SavepointType;
import org.apache.flink.runtime.checkpoint.SnapshotType;
import org.apache.flink.runtime.state.StateBackend;
import org.apache.flink.runtime.state.hashmap.HashMapStateBackend;
import org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackend;

/** What tests of native state share: a GROUP BY, and where it keeps its state. */
abstract class NativeStateTestBase extends NativeTestBase {

    static final int KEYS = 500;

    static final SnapshotType CANONICAL = SavepointType.savepoint(SavepointFormatType.CANONICAL);
    static final SnapshotType NATIVE = SavepointType.savepoint(SavepointFormatType.NATIVE);

    static StageConfig groupBy() {
        return GroupBy.stage(0).build();
    }

    static StateBackend heap() {
        return new HashMapStateBackend();
    }

    static StateBackend rocksDb(boolean incremental) {
        return new EmbeddedRocksDBStateBackend(incremental);
    }

    /** By the name that cases have for it. */
    static StateBackend backend(String name) {
        return name.equals("heap") ? heap() : rocksDb(name.endsWith("incremental"));
    }
}
