package org.apache.flink.streamfusion.runtime;

import static org.apache.flink.util.Preconditions.checkArgument;
import static org.apache.flink.util.Preconditions.checkState;

import org.apache.flink.core.memory.DataOutputView;

import java.io.IOException;
import java.util.Arrays;

/**
 * A batch as a record on a Flink edge: a handle to native memory, or what came from the network, encoded bytes or a ticket of a {@link
 * LocalEdge}.
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
    private final int length;
    private final int rows;
    private final int keyGroup;

    /** Null unless the batch may be parked instead of being written. */
    private LocalEdge.Sender edge;

    /** Of whom a ticket came, and the ticket, unless it is -1. */
    private long process;

    private long ticket = -1;

    private NativeBatch(long handle, byte[] bytes, int length, int rows, int keyGroup) {
        this.handle = handle;
        this.bytes = bytes;
        this.length = length;
        this.rows = rows;
        this.keyGroup = keyGroup;
    }

    static NativeBatch ofHandle(long handle, int rows, int keyGroup) {
        checkArgument(handle != 0, "a batch has no handle");
        return new NativeBatch(handle, null, 0, rows, keyGroup);
    }

    /** A batch whose encoded form is the first {@code length} bytes, which are only lent. */
    static NativeBatch ofBytes(byte[] bytes, int length, int rows, int keyGroup) {
        return new NativeBatch(0, bytes, length, rows, keyGroup);
    }

    /** A batch that was parked where the ticket says. */
    static NativeBatch ofTicket(long process, long ticket, int rows, int keyGroup) {
        final NativeBatch batch = new NativeBatch(0, null, 0, rows, keyGroup);
        batch.process = process;
        batch.ticket = ticket;
        return batch;
    }

    /** Lets the batch be parked when it is written to the network of an edge. Null: it is not. */
    NativeBatch over(LocalEdge.Sender edge) {
        this.edge = edge;
        return this;
    }

    boolean isEncoded() {
        return bytes != null;
    }

    /** Fails if the batch came from the network. */
    long handle() {
        checkState(handle != 0, "a batch from the network has no handle");
        return handle;
    }

    /** Pushes the batch to an input of a stage, once. */
    void pushTo(long stage, int input) {
        if (ticket >= 0) {
            Native.stagePush(stage, input, LocalEdge.claim(process, ticket));
        } else if (isEncoded()) {
            Native.stagePushEncoded(stage, input, bytes, 0, length);
        } else {
            Native.stagePush(stage, input, Native.batchRetain(handle)); // the record is borrowed
        }
    }

    /** A copy of the encoded batch; a batch in native memory is encoded by this call. */
    byte[] encoded() {
        return isEncoded() ? Arrays.copyOf(bytes, length) : encode(handle());
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

    /** Parks the batch if it may be. Returns its ticket, or null. */
    LocalEdge.Ticket park() {
        return edge == null ? null : edge.park(handle);
    }

    /** Writes the length of the encoded batch, and then the batch. */
    void writeEncoded(DataOutputView target) throws IOException {
        if (isEncoded()) {
            writeLength(length, target);
            target.write(bytes, 0, length);
            return;
        }
        final long[] parts = parts(handle());
        writeLength(parts[1] + parts[3], target);
        final byte[] copied = new byte[COPIED_BYTES];
        for (int part = 0; part < parts.length; part += 2) {
            final long end = parts[part] + parts[part + 1];
            for (long next = parts[part]; next < end; next += copied.length) {
                final int copiedLength = (int) Math.min(copied.length, end - next);
                OffHeap.readInto(next, copied, 0, copiedLength);
                target.write(copied, 0, copiedLength);
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
