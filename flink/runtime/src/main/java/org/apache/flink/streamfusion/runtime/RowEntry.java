package org.apache.flink.streamfusion.runtime;

import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.logical.RowType;

/**
 * Entry: writes rows into column buffers that Rust owns, field by field, only those fields that the stage reads.
 *
 * <p>A row is copied when it is written, so its owner may reuse it. When a batch ends is the caller's decision; {@link
 * #isFull()} says when it must.
 */
final class RowEntry implements AutoCloseable {

    /** A batch is full when its strings and byte arrays have this many bytes, however few its rows. */
    static final long MAX_VARIABLE_BYTES = 16 << 20;

    private final EntryMemory memory;
    private final int capacityRows;
    private final VariableData variableData;
    private final ColumnWriter[] writers;
    private final long[] addresses;
    private long kinds;
    private int rows;
    private boolean hasKinds;

    /** Takes the memory over, also if this fails. */
    RowEntry(EntryMemory memory, RowType type, ReadFields fields, int capacityRows) {
        try {
            this.memory = memory;
            this.capacityRows = capacityRows;
            this.variableData = new VariableData(memory);
            this.writers = ColumnWriter.forRow(type, fields.children(), 0, variableData);
            this.addresses = new long[3 * memory.columns() + 1];
            int columns = 0;
            for (ColumnWriter writer : writers) {
                columns += writer.columns();
            }
            if (columns != memory.columns()) {
                throw new IllegalStateException(
                        "The entry has " + memory.columns() + " columns, the fields to read have " + columns);
            }
            memory.addresses(addresses);
            bind();
        } catch (RuntimeException | Error e) {
            memory.close();
            throw e;
        }
    }

    /** Appends a row. There must be room: {@link #isFull()} was false. */
    void write(RowData row) {
        final int index = rows;
        if (index >= capacityRows) {
            throw new IllegalStateException("The batch is full");
        }
        for (ColumnWriter writer : writers) {
            writer.write(row, index);
        }
        final byte kind = row.getRowKind().toByteValue();
        OffHeap.UNSAFE.putByte(kinds + index, kind);
        hasKinds |= kind != 0;
        rows = index + 1;
    }

    int rows() {
        return rows;
    }

    /** Whether the batch must end before the next row. */
    boolean isFull() {
        return rows == capacityRows || variableData.bytes() >= MAX_VARIABLE_BYTES;
    }

    int capacityRows() {
        return capacityRows;
    }

    /** Moves the rows out as a batch that the caller owns, and starts anew. */
    long finish() {
        final long batch = memory.finish(rows, hasKinds, addresses);
        bind();
        return batch;
    }

    private void bind() {
        for (ColumnWriter writer : writers) {
            writer.bind(addresses);
        }
        kinds = addresses[addresses.length - 1];
        rows = 0;
        hasKinds = false;
        variableData.reset();
    }

    @Override
    public void close() {
        memory.close();
    }
}
