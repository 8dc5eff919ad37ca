package org.apache.flink.streamfusion.runtime;

import static org.apache.flink.streamfusion.runtime.OffHeap.UNSAFE;

import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;

/**
 * Stands in for Rust: buffers as the boundary describes them, and a batch made of them as it is exported.
 *
 * <p>Exported columns begin at bit 3 of their bitmaps, as those of a slice may.
 */
final class FakeEntryMemory implements EntryMemory {

    private static final int FIRST_BIT = 3;

    private final List<PhysicalType> columns = new ArrayList<>();
    private final int capacityRows;
    private final List<Long> allocated = new ArrayList<>();
    private long[] current;
    private long[] dataBytes;
    private long kinds;
    private long[] exported;
    private int exportedRows;
    private boolean exportedKinds;
    private int reservations;
    private boolean closed;

    FakeEntryMemory(RowType type, ReadFields fields, int capacityRows) {
        this.capacityRows = capacityRows;
        addColumns(type, fields);
        allocate();
    }

    private void addColumns(RowType type, ReadFields fields) {
        for (int i = 0; i < type.getFieldCount(); i++) {
            final ReadFields field = fields.children().get(i);
            if (field != null) {
                final LogicalType fieldType = type.getTypeAt(i);
                columns.add(PhysicalType.of(fieldType));
                if (field.children() != null) {
                    addColumns((RowType) fieldType, field);
                }
            }
        }
    }

    private static int width(PhysicalType type) {
        return switch (type) {
            case BOOLEAN, INT8 -> 1;
            case INT16 -> 2;
            case INT32, FLOAT32, TEXT, BYTES, ARRAY, MAP -> 4;
            case INT64, FLOAT64, MILLIS -> 8;
            case DECIMAL, NANOS -> 16;
            case ROW -> 0;
        };
    }

    private void allocate() {
        current = new long[3 * columns.size() + 1];
        dataBytes = new long[columns.size()];
        for (int i = 0; i < columns.size(); i++) {
            current[3 * i] = garbage(capacityRows);
            current[3 * i + 1] = width(columns.get(i)) == 0 ? 0 : garbage((long) width(columns.get(i)) * capacityRows);
        }
        kinds = garbage(capacityRows);
        current[3 * columns.size()] = kinds;
    }

    private long garbage(long bytes) {
        final long address = zeroed(bytes);
        UNSAFE.setMemory(address, bytes, (byte) 0x5A);
        return address;
    }

    private long zeroed(long bytes) {
        final long address = UNSAFE.allocateMemory(Math.max(bytes, 1));
        UNSAFE.setMemory(address, bytes, (byte) 0);
        allocated.add(address);
        return address;
    }

    @Override
    public int columns() {
        return columns.size();
    }

    @Override
    public void addresses(long[] addresses) {
        System.arraycopy(current, 0, addresses, 0, current.length);
    }

    @Override
    public long reserve(int column, long bytes) {
        reservations++;
        final long address = garbage(bytes);
        UNSAFE.copyMemory(current[3 * column + 2], address, Math.min(dataBytes[column], bytes));
        dataBytes[column] = bytes;
        current[3 * column + 2] = address;
        return address;
    }

    @Override
    public long finish(int rows, boolean hasKinds, long[] addresses) {
        final long[] export = new long[4 * columns.size() + 1];
        for (int i = 0; i < columns.size(); i++) {
            export[4 * i] = exportBits(current[3 * i], rows);
            export[4 * i + 1] = exportValues(columns.get(i), current[3 * i + 1], rows);
            export[4 * i + 2] = columns.get(i) == PhysicalType.BOOLEAN ? FIRST_BIT : current[3 * i + 2];
            export[4 * i + 3] = FIRST_BIT;
        }
        export[4 * columns.size()] = hasKinds ? kinds : 0;
        exported = export;
        exportedRows = rows;
        exportedKinds = hasKinds;
        allocate();
        addresses(addresses);
        return 1;
    }

    private long exportValues(PhysicalType type, long values, int rows) {
        switch (type) {
            case BOOLEAN:
                return exportBits(values, rows);
            case NANOS:
                for (int i = 0; i < rows; i++) {
                    final BigInteger nanos =
                            BigInteger.valueOf(UNSAFE.getLong(values + 16L * i))
                                    .multiply(BigInteger.valueOf(1_000_000))
                                    .add(BigInteger.valueOf(UNSAFE.getLong(values + 16L * i + 8)));
                    UNSAFE.putLong(values + 16L * i, nanos.longValue());
                    UNSAFE.putLong(values + 16L * i + 8, nanos.shiftRight(64).longValue());
                }
                return values;
            case TEXT:
            case BYTES:
            case ARRAY:
            case MAP:
                final long offsets = zeroed(4L * (rows + 1));
                UNSAFE.copyMemory(values, offsets + 4, 4L * rows);
                return offsets;
            default:
                return values;
        }
    }

    private long exportBits(long bytes, int rows) {
        final long bits = zeroed((rows + FIRST_BIT + 7) / 8);
        for (int i = 0; i < rows; i++) {
            final int bit = i + FIRST_BIT;
            final byte value = UNSAFE.getByte(bytes + i);
            UNSAFE.putByte(bits + bit / 8, (byte) (UNSAFE.getByte(bits + bit / 8) | value << bit % 8));
        }
        return bits;
    }

    /** The addresses of the batch that was finished last, as {@code batchExport} gives them. */
    long[] exported() {
        return exported;
    }

    int exportedRows() {
        return exportedRows;
    }

    boolean exportedKinds() {
        return exportedKinds;
    }

    int reservations() {
        return reservations;
    }

    /** The bytes of row {@code row} in the values of a column of the batch that was finished last. */
    byte[] valueBytes(int column, int row) {
        final int width = width(columns.get(column));
        return OffHeap.bytes(exported[4 * column + 1] + (long) width * row, width);
    }

    static byte[] littleEndian(long... values) {
        final ByteBuffer buffer = ByteBuffer.allocate(8 * values.length).order(ByteOrder.LITTLE_ENDIAN);
        for (long value : values) {
            buffer.putLong(value);
        }
        return buffer.array();
    }

    @Override
    public long reserveBinaryRows(long bytes) {
        throw new UnsupportedOperationException("only columns are faked");
    }

    @Override
    public long finishBinaryRows(int rows) {
        throw new UnsupportedOperationException("only columns are faked");
    }

    @Override
    public void close() {
        allocated.forEach(UNSAFE::freeMemory);
        allocated.clear();
        closed = true;
    }

    boolean isClosed() {
        return closed;
    }
}
