package org.apache.flink.streamfusion.runtime;

import org.apache.flink.core.memory.MemorySegment;
import org.apache.flink.core.memory.MemorySegmentFactory;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.binary.BinaryRowData;

import java.nio.ByteBuffer;
import java.util.function.Consumer;

/**
 * Exit: a batch as rows that Rust has written in Flink's binary format.
 *
 * <p>What Flink does with a row next is to copy it for the operator behind, or to write it to the network. Both cost one copy of
 * bytes if the row is binary, however many columns it has; of a view of columns they cost several objects per column.
 *
 * <p>Since it is copied anyway, the row is lent: one object that points into native memory, from row to row. With {@code
 * pipeline.object-reuse} Flink hands it on as it is, and whoever gets it may keep it; then each row is an object of its own over an array on the heap. Those
 * arrays are of a bounded size, so that none is too large for a region of the heap's collector and a row that is kept keeps few others. No
 * row is cut.
 */
final class BinaryExit {

    /** Rows that are written at once: column by column, so all of them should stay in the cache. */
    private static final int PART_ROWS = 512;

    /** Of an array, unless a single row takes more. */
    private static final int ARRAY_BYTES = 256 << 10;

    /** Of rows that are lent; larger batches are copied. */
    private static final int MAX_LENT_BYTES = 256 << 20;

    private final int arity;
    private final boolean lends;
    private final long[] firstOffset = new long[1];

    /** The rows that are being handed over. Null if none are, or if they are not lent. */
    private Lent lent;

    /**
     * @param arity of the rows
     * @param lends whether each row is copied before the consumer returns, if it is kept
     */
    BinaryExit(int arity, boolean lends) {
        this.arity = arity;
        this.lends = lends;
    }

    /**
     * Hands the rows of a borrowed batch to {@code consumer} in order. Returns false, and hands over none, if rows of this
     * stage have no binary form.
     *
     * <p>A consumer may come back here, since an operator behind that waits lets the timers of its task run: their batch goes out
     * between two rows of this one.
     */
    boolean emit(long stage, long batch, int rows, Consumer<RowData> consumer) {
        for (int first = 0; first < rows; first += PART_ROWS) {
            if (!emit(stage, batch, first, Math.min(PART_ROWS, rows - first), consumer)) {
                return false;
            }
        }
        return true;
    }

    private boolean emit(long stage, long batch, int first, int rows, Consumer<RowData> consumer) {
        if (lent != null) {
            lent.moveToHeap(); // the stage writes over them now
        }
        final ByteBuffer buffer = Native.stageEncodeRows(stage, batch, first, rows, firstOffset);
        if (buffer == null) {
            return false;
        }
        final long[] offsets = OffHeap.longs(firstOffset[0], rows + 1);
        final MemorySegment bytes = MemorySegmentFactory.wrapOffHeapMemory(buffer);
        if (lends && offsets[rows] <= MAX_LENT_BYTES) {
            lend(bytes, offsets, consumer);
        } else {
            for (BinaryRowData row : copies(bytes.getAddress(), offsets)) {
                consumer.accept(row);
            }
        }
        return true;
    }

    private void lend(MemorySegment bytes, long[] offsets, Consumer<RowData> consumer) {
        final Lent outer = lent;
        final Lent rows = new Lent(bytes, offsets, arity);
        lent = rows;
        try {
            for (int row = 0; row < offsets.length - 1; row++) {
                consumer.accept(rows.row(row));
            }
        } finally {
            lent = outer;
        }
    }

    private BinaryRowData[] copies(long bytes, long[] offsets) {
        final BinaryRowData[] rows = new BinaryRowData[offsets.length - 1];
        int next = 0;
        while (next < rows.length) {
            final long start = offsets[next];
            int end = next + 1;
            while (end < rows.length && offsets[end + 1] - start <= ARRAY_BYTES) {
                end++;
            }
            final MemorySegment segment =
                    MemorySegmentFactory.wrap(OffHeap.bytes(bytes + start, Math.toIntExact(offsets[end] - start)));
            for (; next < end; next++) {
                rows[next] = new BinaryRowData(arity);
                rows[next].pointTo(segment, (int) (offsets[next] - start), (int) (offsets[next + 1] - offsets[next]));
            }
        }
        return rows;
    }

    /** Rows in native memory, of which one at a time can be read. */
    private static final class Lent {
        private final long[] offsets;
        private final BinaryRowData row;
        private MemorySegment segment;

        Lent(MemorySegment segment, long[] offsets, int arity) {
            this.segment = segment;
            this.offsets = offsets;
            this.row = new BinaryRowData(arity);
        }

        BinaryRowData row(int number) {
            row.pointTo(segment, (int) offsets[number], (int) (offsets[number + 1] - offsets[number]));
            return row;
        }

        /** Another operator may still have to read the row that was handed over last. */
        void moveToHeap() {
            if (segment.isOffHeap()) {
                segment = MemorySegmentFactory.wrap(OffHeap.bytes(segment.getAddress(), segment.size()));
                row.pointTo(segment, row.getOffset(), row.getSizeInBytes());
            }
        }
    }
}
