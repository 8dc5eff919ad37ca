package org.apache.flink.streamfusion.runtime;

import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.types.logical.RowType;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.LongStream;

/** What another task sends: batches of BIGINTs, split by them into fragments. */
final class FragmentSender implements AutoCloseable {

    static final RowType TYPE = RowType.of(DataTypes.BIGINT().getLogicalType());

    private final long stage;

    /** A sender of an attempt that was restored from a checkpoint, or not if that is -1. */
    FragmentSender(long restoredCheckpoint, int maxParallelism) {
        stage = Native.stageOpen(NativeTestBase.splitting(TYPE, 0), null, 1, maxParallelism, null);
        final long attempt = System.identityHashCode(this);
        Native.stageShuffle(
                stage,
                String.format("{\"sender\":{\"epoch\":%d,\"attempt\":%d}}", restoredCheckpoint + 1, attempt));
    }

    /** The fragments of one batch, as they come from the network. */
    List<NativeBatch> send(LongStream values) {
        final String spec = NativeTestBase.passing(TYPE);
        try (RowEntry entry =
                new RowEntry(EntryMemory.open(spec, 1000), TYPE, ReadFields.all(TYPE), 1000)) {
            values.forEach(value -> entry.write(GenericRowData.of(value)));
            Native.stagePush(stage, 0, entry.finish());
        }
        final List<NativeBatch> fragments = new ArrayList<>();
        for (long batch = Native.stagePull(stage); batch != 0; batch = Native.stagePull(stage)) {
            fragments.add(
                    NativeTestBase.ofEncoded(NativeBatch.encode(batch), Native.batchRows(batch), Native.batchKeyGroup(batch)));
            Native.batchRelease(batch);
        }
        return fragments;
    }

    /** A batch that is not split, as it comes from the network. */
    NativeBatch sendWhole(LongStream values) {
        final String spec = NativeTestBase.passing(TYPE);
        try (RowEntry entry =
                new RowEntry(EntryMemory.open(spec, 1000), TYPE, ReadFields.all(TYPE), 1000)) {
            values.forEach(value -> entry.write(GenericRowData.of(value)));
            final int rows = entry.rows();
            final long batch = entry.finish();
            try {
                return NativeTestBase.ofEncoded(NativeBatch.encode(batch), rows, NativeBatch.NO_KEY_GROUP);
            } finally {
                Native.batchRelease(batch);
            }
        }
    }

    @Override
    public void close() {
        Native.stageClose(stage);
    }
}
