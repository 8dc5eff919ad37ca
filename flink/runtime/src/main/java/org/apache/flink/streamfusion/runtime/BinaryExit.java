package org.apache.flink.streamfusion.runtime;

import org.apache.flink.core.memory.MemorySegment;
import org.apache.flink.core.memory.MemorySegmentFactory;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.binary.BinaryRowData;

import java.util.function.Consumer;

/**
 * Exit: a batch as rows that Rust has written in Flink's binary format.
 *
 * <p>What Flink does with a row next is to copy it for the operator behind, or to write it to the network. Both cost one copy of
 * bytes if the row is binary, however many columns it has; of a view of columns they cost several objects per column.
 *
 * <p>The bytes lie in arrays of a bounded size, so that none is too large for a region of the heap's collector and a row that
 * is kept keeps few others. No row is cut.
 */
final class BinaryExit {

    /** Of an array, unless a single row takes more. */
    private static final int ARRAY_BYTES = 256 << 10;

    private BinaryExit() {}

    /**
     * Hands the rows of a borrowed batch to {@code consumer} in order, each a new object. Returns false, and hands over none, if
     * rows of this stage have no binary form.
     */
    static boolean emit(long stage, long batch, int rows, int arity, Consumer<RowData> consumer) {
        final long[] addresses = new long[2];
        if (!Native.stageEncodeRows(stage, batch, addresses)) {
            return false;
        }
        // Copied at once: whoever takes a row may make the stage write others.
        final BinaryRowData[] binaryRows = rows(addresses[0], OffHeap.longs(addresses[1], rows + 1), arity);
        for (BinaryRowData row : binaryRows) {
            consumer.accept(row);
        }
        return true;
    }

    private static BinaryRowData[] rows(long bytes, long[] offsets, int arity) {
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
}
