package org.apache.flink.streamfusion.runtime;

import static org.apache.flink.util.Preconditions.checkArgument;
import static org.apache.flink.util.Preconditions.checkState;

import org.apache.flink.core.memory.DataOutputView;

import java.io.IOException;

/**
 * A batch as a record on a Flink edge: a handle to native memory, or the encoded bytes as they came from the network.
 *
 * <p>Whoever receives the record borrows it for the duration of the call; whoever emitted it releases the handle.
 */
public final class NativeBatch {

    /** The key group of a batch that does not travel a keyed exchange. */
    public static final int NO_KEY_GROUP = -1;

    /** What is copied at once from native memory to the network: it stays in the processor's cache. */
    private static final int COPIED_BYTES = 32 << 10;

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
        return isEncoded() ? bytes : encode(handle);
    }

    /** The encoded form of a borrowed batch in native memory. */
    static byte[] encode(long handle) {
        final long[] parts = parts(handle);
        final byte[] bytes = new byte[Math.toIntExact(parts[1] + parts[3])];
        OffHeap.readInto(parts[0], bytes, 0, (int) parts[1]);
        OffHeap.readInto(parts[2], bytes, (int) parts[1], (int) parts[3]);
        return bytes;
    }

    private static long[] parts(long handle) {
        final long[] parts = new long[4];
        Native.batchEncode(handle, parts);
        return parts;
    }

    /** Writes the length of the encoded batch, and then the batch. */
    void writeEncoded(DataOutputView target) throws IOException {
        if (isEncoded()) {
            writeLength(bytes.length, target);
            target.write(bytes);
            return;
        }
        final long[] parts = parts(handle);
        writeLength(parts[1] + parts[3], target);
        final byte[] copied = new byte[COPIED_BYTES];
        for (int part = 0; part < parts.length; part += 2) {
            final long end = parts[part] + parts[part + 1];
            for (long next = parts[part]; next < end; next += copied.length) {
                final int length = (int) Math.min(copied.length, end - next);
                OffHeap.readInto(next, copied, 0, length);
                target.write(copied, 0, length);
            }
        }
    }

    private static void writeLength(long length, DataOutputView target) throws IOException {
        if (length > NativeBatchSerializer.MAX_ENCODED_BYTES) {
            throw new IOException("A batch of " + length + " bytes is too large for the network");
        }
        target.writeInt((int) length);
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
