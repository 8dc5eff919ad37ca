package org.apache.flink.streamfusion.runtime;

import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.binary.BinaryRowData;

/**
 * The rows of a batch that come in Flink's binary form. Each is copied as it is behind a word with its length; Rust reads the
 * fields, which takes less than asking a row for each of them.
 */
final class BinaryRows {

    /** Of wider rows the fields that are read are written alone, so that bytes are not copied for nothing. */
    static final int MAX_BYTES_PER_COLUMN = 128;

    private static final int LENGTH_BYTES = 8;
    private static final long MIN_RESERVATION_BYTES = 64 << 10;

    private final EntryMemory memory;
    private final int fields;
    private final int maxRowBytes;
    private long address;
    private long capacity;
    private long end;

    /**
     * @param fields of each row
     * @param columns that are read of them
     */
    BinaryRows(EntryMemory memory, int fields, int columns) {
        this.memory = memory;
        this.fields = fields;
        this.maxRowBytes = MAX_BYTES_PER_COLUMN * columns;
    }

    /** Whether a batch should begin with this row. */
    boolean suits(RowData row) {
        return takes(row) && ((BinaryRowData) row).getSizeInBytes() <= maxRowBytes;
    }

    /** Whether the row can be written. */
    boolean takes(RowData row) {
        return row.getClass() == BinaryRowData.class && row.getArity() == fields;
    }

    void write(BinaryRowData row) {
        final int length = row.getSizeInBytes();
        final long newEnd = end + LENGTH_BYTES + length;
        if (newEnd > capacity) {
            final long bytes = Math.max(Long.highestOneBit(newEnd) << 1, MIN_RESERVATION_BYTES);
            address = memory.reserveBinaryRows(bytes);
            capacity = bytes;
        }
        OffHeap.UNSAFE.putLong(address + end, length);
        OffHeap.write(row.getSegments(), row.getOffset(), length, address + end + LENGTH_BYTES);
        end = newEnd;
    }

    /** Of the rows since the last batch. */
    long bytes() {
        return end;
    }

    /** Moves the rows out as a batch that the caller owns. */
    long finish(int rows) {
        end = 0;
        return memory.finishBinaryRows(rows);
    }
}
