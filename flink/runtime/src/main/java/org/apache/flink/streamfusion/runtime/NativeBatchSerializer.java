package org.apache.flink.streamfusion.runtime;

import org.apache.flink.api.common.typeutils.SimpleTypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.TypeSerializerSingleton;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;

import java.io.IOException;

/**
 * Batches on the network: rows, key group and length as ints, then the encoded batch, whose layout only Rust knows.
 *
 * <p>A copy is the same object: Flink copies each record between chained operators, and a batch is only borrowed there.
 */
public final class NativeBatchSerializer extends TypeSerializerSingleton<NativeBatch> {

    private static final long serialVersionUID = 1L;

    static final NativeBatchSerializer INSTANCE = new NativeBatchSerializer();

    /** Far above any batch that a stage makes; a larger length means that the bytes are not a batch. */
    static final int MAX_ENCODED_BYTES = 1 << 30;

    @Override
    public boolean isImmutableType() {
        return true;
    }

    @Override
    public NativeBatch createInstance() {
        return NativeBatch.ofBytes(new byte[0], 0, NativeBatch.NO_KEY_GROUP);
    }

    @Override
    public NativeBatch copy(NativeBatch from) {
        return from;
    }

    @Override
    public NativeBatch copy(NativeBatch from, NativeBatch reuse) {
        return from;
    }

    @Override
    public int getLength() {
        return -1;
    }

    @Override
    public void serialize(NativeBatch batch, DataOutputView target) throws IOException {
        target.writeInt(batch.rows());
        target.writeInt(batch.keyGroup());
        batch.writeEncoded(target);
    }

    @Override
    public NativeBatch deserialize(DataInputView source) throws IOException {
        final int rows = source.readInt();
        final int keyGroup = source.readInt();
        final byte[] bytes = new byte[checkHeader(rows, keyGroup, source.readInt())];
        source.readFully(bytes);
        return NativeBatch.ofBytes(bytes, rows, keyGroup);
    }

    @Override
    public NativeBatch deserialize(NativeBatch reuse, DataInputView source) throws IOException {
        return deserialize(source);
    }

    @Override
    public void copy(DataInputView source, DataOutputView target) throws IOException {
        final int rows = source.readInt();
        final int keyGroup = source.readInt();
        final int length = checkHeader(rows, keyGroup, source.readInt());
        target.writeInt(rows);
        target.writeInt(keyGroup);
        target.writeInt(length);
        target.write(source, length);
    }

    private static int checkHeader(int rows, int keyGroup, int length) throws IOException {
        if (rows < 0
                || keyGroup < NativeBatch.NO_KEY_GROUP
                || keyGroup >= KeyGroupRangeAssignment.UPPER_BOUND_MAX_PARALLELISM
                || length < 0
                || length > MAX_ENCODED_BYTES) {
            throw new IOException(
                    "Not a batch: rows=" + rows + ", key group=" + keyGroup + ", length=" + length);
        }
        return length;
    }

    @Override
    public TypeSerializerSnapshot<NativeBatch> snapshotConfiguration() {
        return new Snapshot();
    }

    /** The serializer has no configuration. */
    public static final class Snapshot extends SimpleTypeSerializerSnapshot<NativeBatch> {
        public Snapshot() {
            super(() -> INSTANCE);
        }
    }
}
