package org.apache.flink.streamfusion.runtime;

import static org.apache.flink.util.Preconditions.checkArgument;
import static org.apache.flink.util.Preconditions.checkState;

/**
 * A batch as a record on a Flink edge: a handle to native memory, or the encoded bytes as they came from the network.
 *
 * <p>Whoever receives the record borrows it for the duration of the call; whoever emitted it releases the handle.
 */
public final class NativeBatch {

    /** The key group of a batch that does not travel a keyed exchange. */
    public static final int NO_KEY_GROUP = -1;

    private final long handle;
    private final byte[] bytes;
    private final int rows;
    private final int keyGroup;

    private NativeBatch(long handle, byte[] bytes, int rows, int keyGroup) {
        this.handle = handle;
        this.bytes = bytes;
        this.rows = rows;
        this.keyGroup = keyGroup;
    }

    static NativeBatch ofHandle(long handle, int rows, int keyGroup) {
        checkArgument(handle != 0, "a batch has no handle");
        return new NativeBatch(handle, null, rows, keyGroup);
    }

    static NativeBatch ofBytes(byte[] bytes, int rows, int keyGroup) {
        return new NativeBatch(0, bytes, rows, keyGroup);
    }

    boolean isEncoded() {
        return bytes != null;
    }

    /** Fails if the batch is encoded. */
    long handle() {
        checkState(!isEncoded(), "an encoded batch has no handle");
        return handle;
    }

    /** The encoded batch; a batch in native memory is encoded by this call. */
    byte[] encoded() {
        return isEncoded() ? bytes : Native.batchEncode(handle);
    }

    public int rows() {
        return rows;
    }

    /** The key group that stands for every row of the batch on a keyed exchange, or {@link #NO_KEY_GROUP}. */
    public int keyGroup() {
        return keyGroup;
    }

    @Override
    public String toString() {
        return "NativeBatch{rows=" + rows + ", keyGroup=" + keyGroup + ", encoded=" + isEncoded() + '}';
    }
}
