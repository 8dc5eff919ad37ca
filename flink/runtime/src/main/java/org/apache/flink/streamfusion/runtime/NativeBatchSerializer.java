package org.apache.flink.streamfusion.runtime;

import org.apache.flink.api.common.typeutils.SimpleTypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.TypeSerializerSingleton;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;

import java.io.IOException;

/**
 * Batches on the network: rows, key group and length as ints, then the encoded batch, whose layout only Rust knows. Within a process a
 * ticket may take its place: -2 instead of the length, the process, the ticket, and zeros behind their number.
 *
 * <p>A batch that was read is valid until the same thread reads the next one. A copy is the same object: Flink copies each record
 * between chained operators, and a batch is only borrowed there.
 */
public final class NativeBatchSerializer extends TypeSerializerSingleton<NativeBatch> {

    private static final long serialVersionUID = 1L;

    static final NativeBatchSerializer INSTANCE = new NativeBatchSerializer();

    /** Far above any batch that a stage makes; a larger length means that the bytes are not a batch. */
    static final int MAX_ENCODED_BYTES = 1 << 30;

    /** Stands where the length of an encoded batch does, before a ticket. */
    private static final int TICKET = -2;

    /** Rows, key group, mark, process, ticket and the length of what fills up the record. */
    private static final int TICKET_BYTES = 4 * Integer.BYTES + 2 * Long.BYTES;

    private static final byte[] NOTHING = new byte[32 << 10];

    /** A larger batch gets an array of its own. */
    private static final int MAX_REUSED_BYTES = 8 << 20;

    /**
     * What the batches that a thread receives are read into, one after the other: a batch is borrowed, and pushed before the next one is
     * read. Arrays of this size are slow to come by, as each is zeroed first and no part of a heap's young generation.
     */
    private static final ThreadLocal<byte[]> RECEIVED = ThreadLocal.withInitial(() -> new byte[0]);

    @Override
    public boolean isImmutableType() {
        return true;
    }

    @Override
    public NativeBatch createInstance() {
        return NativeBatch.ofBytes(new byte[0], 0, 0, NativeBatch.NO_KEY_GROUP);
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
        final LocalEdge.Ticket ticket = batch.park();
        if (ticket == null) {
            batch.writeEncoded(target);
        } else {
            writeTicket(ticket, target);
        }
    }

    @Override
    public NativeBatch deserialize(DataInputView source) throws IOException {
        final int rows = source.readInt();
        final int keyGroup = source.readInt();
        final int lengthOrTicket = source.readInt();
        if (lengthOrTicket == TICKET) {
            return readTicket(rows, keyGroup, source);
        }
        final int length = checkHeader(rows, keyGroup, lengthOrTicket);
        final byte[] bytes = received(length);
        source.readFully(bytes, 0, length);
        return NativeBatch.ofBytes(bytes, length, rows, keyGroup);
    }

    private static void writeTicket(LocalEdge.Ticket ticket, DataOutputView target) throws IOException {
        target.writeInt(TICKET);
        target.writeLong(LocalEdge.PROCESS);
        target.writeLong(ticket.number());
        final int rest = Math.max(0, ticket.recordBytes() - TICKET_BYTES);
        target.writeInt(rest);
        target.write(NOTHING, 0, Math.min(rest, NOTHING.length));
        for (int written = NOTHING.length; written < rest; written += NOTHING.length) {
            target.write(NOTHING, 0, Math.min(rest - written, NOTHING.length));
        }
    }

    private static NativeBatch readTicket(int rows, int keyGroup, DataInputView source) throws IOException {
        final long process = source.readLong();
        final long ticket = source.readLong();
        source.skipBytesToRead(source.readInt());
        return NativeBatch.ofTicket(process, ticket, rows, keyGroup);
    }

    private static byte[] received(int length) {
        if (length > MAX_REUSED_BYTES) {
            return new byte[length];
        }
        byte[] bytes = RECEIVED.get();
        if (bytes.length < length) {
            bytes = new byte[Math.min(MAX_REUSED_BYTES, length + (length >> 1))];
            RECEIVED.set(bytes);
        }
        return bytes;
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
