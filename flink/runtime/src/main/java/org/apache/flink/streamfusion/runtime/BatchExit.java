package org.apache.flink.streamfusion.runtime;

import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.types.RowKind;

import java.util.function.Consumer;

/**
 * Exit: a batch as rows.
 *
 * <p>The columns are copied to the heap at once and the rows are views of them. Of the ways tried (7-column bids, one core:
 * views, {@code GenericRowData} filled column by column) views were the fastest for each consumer: read in place, copied by
 * Flink's row serializer between chained operators, and written to the network.
 */
final class BatchExit {

    private static final RowKind[] KINDS = RowKind.values();

    private BatchExit() {}

    /** Hands the rows of a borrowed batch to {@code consumer} in order, each a new object; returns their number. */
    static int emit(long batch, RowType type, Consumer<? super ColumnarRow> consumer) {
        final int rows = Native.batchRows(batch);
        emit(export(batch), rows, type, consumer);
        return rows;
    }

    /** The addresses of a borrowed batch, valid until it is released. */
    static long[] export(long batch) {
        final long[] addresses = new long[4 * Native.batchColumns(batch) + 1];
        Native.batchExport(batch, addresses);
        return addresses;
    }

    static void emit(long[] addresses, int rows, RowType type, Consumer<? super ColumnarRow> consumer) {
        final HeapColumn[] columns = columns(addresses, rows, type);
        final long kindsAddress = addresses[addresses.length - 1];
        if (kindsAddress == 0) {
            for (int row = 0; row < rows; row++) {
                consumer.accept(new ColumnarRow(columns, row));
            }
        } else {
            final byte[] kinds = OffHeap.bytes(kindsAddress, rows);
            for (int row = 0; row < rows; row++) {
                consumer.accept(new ColumnarRow(columns, row, KINDS[kinds[row]]));
            }
        }
    }

    /** Copies the columns of a row type to the heap. */
    static HeapColumn[] columns(long[] addresses, int rows, RowType type) {
        final HeapColumn.Cursor next = new HeapColumn.Cursor();
        final HeapColumn[] columns = HeapColumn.copyAll(type, rows, addresses, next);
        if (4 * next.column() + 1 != addresses.length) {
            throw new IllegalStateException(
                    "The batch has " + addresses.length / 4 + " columns, the type has " + next.column() + ": " + type);
        }
        return columns;
    }
}
