package org.apache.flink.streamfusion.runtime;

import static org.apache.flink.streamfusion.runtime.OffHeap.UNSAFE;

import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.MapData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.data.binary.BinaryFormat;
import org.apache.flink.table.data.binary.BinaryStringData;
import org.apache.flink.table.runtime.typeutils.ArrayDataSerializer;
import org.apache.flink.table.runtime.typeutils.InternalSerializers;
import org.apache.flink.table.runtime.typeutils.MapDataSerializer;
import org.apache.flink.table.types.logical.ArrayType;
import org.apache.flink.table.types.logical.DecimalType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.utils.LogicalTypeChecks;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.List;

/**
 * Writes one field of a row into one column of an entry.
 *
 * <p>One final class per physical type: a row is a loop over writers, and each writer is a NULL check and a few stores.
 */
abstract class ColumnWriter {

    /** The position of the field in its row. */
    final int field;

    /** The position of the column in the column tree. */
    final int column;

    long validity;
    long values;

    private ColumnWriter(int field, int column) {
        this.field = field;
        this.column = column;
    }

    /** Writes the field of {@code row} as row {@code index} of the column. */
    final void write(RowData row, int index) {
        if (row.isNullAt(field)) {
            writeNull(index);
        } else {
            UNSAFE.putByte(validity + index, (byte) 1);
            writeValue(row, index);
        }
    }

    final void writeNull(int index) {
        UNSAFE.putByte(validity + index, (byte) 0);
        writeZero(index);
    }

    abstract void writeValue(RowData row, int index);

    abstract void writeZero(int index);

    /** Takes the addresses for the rows that come next. */
    void bind(long[] addresses) {
        validity = addresses[3 * column];
        values = addresses[3 * column + 1];
    }

    /** The number of columns that this writer fills: its own and those of its children. */
    int columns() {
        return 1;
    }

    /**
     * Creates the writers for the fields of a row that are read.
     *
     * @param firstColumn the column of the first of them
     */
    static ColumnWriter[] forRow(RowType type, List<ReadFields> fields, int firstColumn, VariableData data) {
        final ColumnWriter[] writers = new ColumnWriter[(int) fields.stream().filter(f -> f != null).count()];
        int column = firstColumn;
        int next = 0;
        for (int field = 0; field < fields.size(); field++) {
            if (fields.get(field) != null) {
                writers[next] = forField(type.getTypeAt(field), fields.get(field), field, column, data);
                column += writers[next++].columns();
            }
        }
        return writers;
    }

    private static ColumnWriter forField(
            LogicalType type, ReadFields read, int field, int column, VariableData data) {
        return switch (PhysicalType.of(type)) {
            case BOOLEAN -> new OfBoolean(field, column);
            case INT8 -> new OfInt8(field, column);
            case INT16 -> new OfInt16(field, column);
            case INT32 -> new OfInt32(field, column);
            case INT64 -> new OfInt64(field, column);
            case FLOAT32 -> new OfFloat32(field, column);
            case FLOAT64 -> new OfFloat64(field, column);
            case DECIMAL -> new OfDecimal(field, column, (DecimalType) type);
            case MILLIS -> new OfMillis(field, column, LogicalTypeChecks.getPrecision(type));
            case NANOS -> new OfNanos(field, column, LogicalTypeChecks.getPrecision(type));
            case TEXT -> new OfText(field, column, data);
            case BYTES -> new OfBytes(field, column, data);
            case ROW -> new OfRow(field, column, (RowType) type, read, data);
            case ARRAY -> new OfArray(field, column, (ArrayType) type, data);
            case MAP -> new OfMap(field, column, type, data);
        };
    }

    private static final class OfBoolean extends ColumnWriter {
        OfBoolean(int field, int column) {
            super(field, column);
        }

        @Override
        void writeValue(RowData row, int index) {
            UNSAFE.putByte(values + index, (byte) (row.getBoolean(field) ? 1 : 0));
        }

        @Override
        void writeZero(int index) {
            UNSAFE.putByte(values + index, (byte) 0);
        }
    }

    private static final class OfInt8 extends ColumnWriter {
        OfInt8(int field, int column) {
            super(field, column);
        }

        @Override
        void writeValue(RowData row, int index) {
            UNSAFE.putByte(values + index, row.getByte(field));
        }

        @Override
        void writeZero(int index) {
            UNSAFE.putByte(values + index, (byte) 0);
        }
    }

    private static final class OfInt16 extends ColumnWriter {
        OfInt16(int field, int column) {
            super(field, column);
        }

        @Override
        void writeValue(RowData row, int index) {
            UNSAFE.putShort(values + 2L * index, row.getShort(field));
        }

        @Override
        void writeZero(int index) {
            UNSAFE.putShort(values + 2L * index, (short) 0);
        }
    }

    private static final class OfInt32 extends ColumnWriter {
        OfInt32(int field, int column) {
            super(field, column);
        }

        @Override
        void writeValue(RowData row, int index) {
            UNSAFE.putInt(values + 4L * index, row.getInt(field));
        }

        @Override
        void writeZero(int index) {
            UNSAFE.putInt(values + 4L * index, 0);
        }
    }

    private static final class OfInt64 extends ColumnWriter {
        OfInt64(int field, int column) {
            super(field, column);
        }

        @Override
        void writeValue(RowData row, int index) {
            UNSAFE.putLong(values + 8L * index, row.getLong(field));
        }

        @Override
        void writeZero(int index) {
            UNSAFE.putLong(values + 8L * index, 0);
        }
    }

    private static final class OfFloat32 extends ColumnWriter {
        OfFloat32(int field, int column) {
            super(field, column);
        }

        @Override
        void writeValue(RowData row, int index) {
            UNSAFE.putFloat(values + 4L * index, row.getFloat(field));
        }

        @Override
        void writeZero(int index) {
            UNSAFE.putInt(values + 4L * index, 0);
        }
    }

    private static final class OfFloat64 extends ColumnWriter {
        OfFloat64(int field, int column) {
            super(field, column);
        }

        @Override
        void writeValue(RowData row, int index) {
            UNSAFE.putDouble(values + 8L * index, row.getDouble(field));
        }

        @Override
        void writeZero(int index) {
            UNSAFE.putLong(values + 8L * index, 0);
        }
    }

    private static final class OfDecimal extends ColumnWriter {
        private final int precision;
        private final int scale;

        OfDecimal(int field, int column, DecimalType type) {
            super(field, column);
            this.precision = type.getPrecision();
            this.scale = type.getScale();
        }

        @Override
        void writeValue(RowData row, int index) {
            final DecimalData decimal = row.getDecimal(field, precision, scale);
            if (decimal.isCompact() && decimal.scale() == scale) {
                final long unscaled = decimal.toUnscaledLong();
                put(index, unscaled, unscaled >> 63);
            } else {
                final BigInteger unscaled = unscaled(decimal.toBigDecimal());
                put(index, unscaled.longValue(), unscaled.shiftRight(64).longValue());
            }
        }

        /** A row object may hold a decimal of another scale than its type says. */
        private BigInteger unscaled(BigDecimal value) {
            final BigInteger unscaled = value.setScale(scale).unscaledValue();
            if (unscaled.bitLength() > 127) {
                throw new ArithmeticException(value + " is no DECIMAL(" + precision + ", " + scale + ")");
            }
            return unscaled;
        }

        @Override
        void writeZero(int index) {
            put(index, 0, 0);
        }

        private void put(int index, long low, long high) {
            final long address = values + 16L * index;
            UNSAFE.putLong(address, low);
            UNSAFE.putLong(address + 8, high);
        }
    }

    private static final class OfMillis extends ColumnWriter {
        private final int precision;

        OfMillis(int field, int column, int precision) {
            super(field, column);
            this.precision = precision;
        }

        @Override
        void writeValue(RowData row, int index) {
            UNSAFE.putLong(values + 8L * index, row.getTimestamp(field, precision).getMillisecond());
        }

        @Override
        void writeZero(int index) {
            UNSAFE.putLong(values + 8L * index, 0);
        }
    }

    private static final class OfNanos extends ColumnWriter {
        private final int precision;

        OfNanos(int field, int column, int precision) {
            super(field, column);
            this.precision = precision;
        }

        @Override
        void writeValue(RowData row, int index) {
            final TimestampData timestamp = row.getTimestamp(field, precision);
            put(index, timestamp.getMillisecond(), timestamp.getNanoOfMillisecond());
        }

        @Override
        void writeZero(int index) {
            put(index, 0, 0);
        }

        private void put(int index, long millis, long nanoOfMillisecond) {
            final long address = values + 16L * index;
            UNSAFE.putLong(address, millis);
            UNSAFE.putLong(address + 8, nanoOfMillisecond);
        }
    }

    /** A column of end offsets into a data buffer that grows on demand. */
    private abstract static class Variable extends ColumnWriter {
        private final VariableData data;
        private long address;
        private long capacity;
        private int end;
        private int previousEnd;

        Variable(int field, int column, VariableData data) {
            super(field, column);
            this.data = data;
        }

        @Override
        final void bind(long[] addresses) {
            super.bind(addresses);
            address = addresses[3 * column + 2];
            capacity = 0; // how much there is, only a reservation tells
            previousEnd = end;
            end = 0;
        }

        /** Appends room for a value of {@code length} bytes as row {@code index}; returns its address. */
        final long append(int index, int length) {
            final long newEnd = (long) end + length;
            if (newEnd > capacity) {
                final long bytes = data.roomFor(Math.max(newEnd, previousEnd));
                address = data.reserve(column, bytes);
                capacity = bytes;
            }
            final long target = address + end;
            end = (int) newEnd;
            UNSAFE.putInt(values + 4L * index, end);
            data.add(length);
            return target;
        }

        final void writeBinary(BinaryFormat value, int index) {
            final int length = value.getSizeInBytes();
            OffHeap.write(value.getSegments(), value.getOffset(), length, append(index, length));
        }

        @Override
        final void writeZero(int index) {
            UNSAFE.putInt(values + 4L * index, end);
        }
    }

    private static final class OfText extends Variable {
        OfText(int field, int column, VariableData data) {
            super(field, column, data);
        }

        @Override
        void writeValue(RowData row, int index) {
            final BinaryStringData string = (BinaryStringData) row.getString(field); // there is no other StringData
            string.ensureMaterialized();
            writeBinary(string, index);
        }
    }

    private static final class OfBytes extends Variable {
        OfBytes(int field, int column, VariableData data) {
            super(field, column, data);
        }

        @Override
        void writeValue(RowData row, int index) {
            final byte[] bytes = row.getBinary(field);
            OffHeap.write(bytes, 0, bytes.length, append(index, bytes.length));
        }
    }

    /** The bytes that Flink itself writes: a copy where the array already is binary. */
    private static final class OfArray extends Variable {
        private final ArrayDataSerializer serializer;

        OfArray(int field, int column, ArrayType type, VariableData data) {
            super(field, column, data);
            this.serializer = new ArrayDataSerializer(type.getElementType());
        }

        @Override
        void writeValue(RowData row, int index) {
            writeBinary(serializer.toBinaryArray(row.getArray(field)), index);
        }
    }

    private static final class OfMap extends Variable {
        private final MapDataSerializer serializer;

        OfMap(int field, int column, LogicalType type, VariableData data) {
            super(field, column, data);
            this.serializer = (MapDataSerializer) InternalSerializers.<MapData>create(type);
        }

        @Override
        void writeValue(RowData row, int index) {
            writeBinary(serializer.toBinaryMap(row.getMap(field)), index);
        }
    }

    private static final class OfRow extends ColumnWriter {
        private final int arity;
        private final ColumnWriter[] children;

        OfRow(int field, int column, RowType type, ReadFields read, VariableData data) {
            super(field, column);
            this.arity = type.getFieldCount();
            this.children = forRow(type, read.children(), column + 1, data);
        }

        @Override
        void bind(long[] addresses) {
            super.bind(addresses);
            for (ColumnWriter child : children) {
                child.bind(addresses);
            }
        }

        @Override
        int columns() {
            int columns = 1;
            for (ColumnWriter child : children) {
                columns += child.columns();
            }
            return columns;
        }

        @Override
        void writeValue(RowData row, int index) {
            final RowData nested = row.getRow(field, arity);
            for (ColumnWriter child : children) {
                child.write(nested, index);
            }
        }

        @Override
        void writeZero(int index) {
            for (ColumnWriter child : children) {
                child.writeNull(index);
            }
        }
    }
}
