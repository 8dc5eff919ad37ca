package org.apache.flink.streamfusion.runtime;

import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.binary.BinaryRowData;
import org.apache.flink.table.types.logical.RowType;

/**
 * Entry: writes rows into column buffers that Rust owns, field by field, only those fields that the stage reads. Rows in Flink's
 * binary form may be handed over whole, see {@link #takeBinaryRows()}.
 *
 * <p>A row is copied when it is written, so its owner may reuse it. When a batch ends is the caller's decision; {@link
 * #isFull()} says when it must.
 */
final class RowEntry implements AutoCloseable {

    /** A batch is full when its strings and byte arrays have this many bytes, however few its rows. */
    static final long MAX_VARIABLE_BYTES = 16 << 20;

    /**
     * The same where batches may go to the network: Flink spills a record of more than 5 MiB to disk before it is read, and the
     * strings are not all of a batch.
     */
    static final long MAX_VARIABLE_BYTES_ON_NETWORK = 4 << 20;

    private final EntryMemory memory;
    private final int capacityRows;
    private final long maxVariableBytes;
    private final VariableData variableData;
    private final ColumnWriter[] writers;
    private final long[] addresses;
    private long kinds;
    private int rows;
    private boolean hasKinds;
    private boolean valid;
    private final RowType type;

    /** Null if all rows are written field by field. */
    private BinaryRows binaryRows;

    /** Whether rows of another form came as well. */
    private boolean mixed;

    /** Whether those of this batch are in {@link #binaryRows}. */
    private boolean binary;

    /** Takes the memory over, also if this fails. */
    RowEntry(EntryMemory memory, RowType type, ReadFields fields, int capacityRows) {
        this(memory, type, fields, capacityRows, MAX_VARIABLE_BYTES);
    }

    /** Takes the memory over, also if this fails. The batch is full when it has one of the two numbers. */
    RowEntry(EntryMemory memory, RowType type, ReadFields fields, int capacityRows, long maxVariableBytes) {
        try {
            this.memory = memory;
            this.type = type;
            this.capacityRows = capacityRows;
            this.maxVariableBytes = maxVariableBytes;
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

    /**
     * Copies rows in Flink's binary form whole. From then on {@link #takes} must be asked before each row is written, since a batch is
     * either of such rows or not; where both come, this is given up.
     */
    void takeBinaryRows() {
        binaryRows = new BinaryRows(memory, type.getFieldCount(), memory.columns());
    }

    /** Whether the row can be written to the batch of the rows before it. If not, the batch must be finished first. */
    boolean takes(RowData row) {
        if (rows == 0) {
            binary = binaryRows != null && !mixed && binaryRows.suits(row);
        } else if (binary && !binaryRows.takes(row)) {
            mixed = true;
            return false;
        }
        return true;
    }

    /** Appends a row. There must be room: {@link #isFull()} was false. */
    void write(RowData row) {
        final int index = rows;
        if (index >= capacityRows || !valid) {
            throw new IllegalStateException(valid ? "The batch is full" : "The entry failed before");
        }
        if (binary) {
            binaryRows.write((BinaryRowData) row);
            rows = index + 1;
            return;
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

    /** Whether the rows of this batch were taken whole. */
    boolean holdsBinaryRows() {
        return binary && rows > 0;
    }

    /** Whether the batch must end before the next row. */
    boolean isFull() {
        return rows == capacityRows || (binary ? binaryRows.bytes() : variableData.bytes()) >= maxVariableBytes;
    }

    int capacityRows() {
        return capacityRows;
    }

    /** Moves the rows out as a batch that the caller owns, and starts anew. After a failure nothing can be written. */
    long finish() {
        if (binary) {
            final int finished = rows;
            rows = 0;
            binary = false; // until the next row is asked about
            return binaryRows.finish(finished);
        }
        valid = false; // the addresses are gone, whatever happens
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
        valid = true;
    }

    @Override
    public void close() {
        memory.close();
    }
}
