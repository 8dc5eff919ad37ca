package org.apache.flink.streamfusion.runtime;

import org.apache.flink.core.memory.MemorySegment;
import org.apache.flink.core.memory.MemorySegmentFactory;
import org.apache.flink.table.data.ArrayData;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.MapData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.data.binary.BinaryArrayData;
import org.apache.flink.table.data.binary.BinaryMapData;
import org.apache.flink.table.data.binary.BinaryStringData;
import org.apache.flink.table.types.logical.DecimalType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * One column of a batch, copied to arrays on the heap, so that a row over it outlives the batch.
 *
 * <p>Each subclass answers the accessor of its own type; the others fail, as a row of the wrong type would. A value is asked
 * for only where there is no NULL.
 */
abstract class HeapColumn {

    /** Nanoseconds per millisecond: what a TIMESTAMP(9) is counted in, and what a {@link TimestampData} is made of. */
    private static final long NANOS_PER_MILLI = 1_000_000;

    /** Stands for a column that is not there. Every value is NULL. */
    static final HeapColumn ABSENT = new Absent();

    /** A bit per row, set where there is a value; null if there is one in every row. */
    private final Bits valid;

    private HeapColumn(Bits valid) {
        this.valid = valid;
    }

    final Bits valid() {
        return valid;
    }

    boolean isNull(int row) {
        return valid != null && !valid.get(row);
    }

    /**
     * Copies the columns of a row type and advances {@code next} past their column trees.
     *
     * @param addresses four per column, as {@code batchExport} gives them
     */
    static HeapColumn[] copyAll(RowType type, int rows, long[] addresses, Cursor next) {
        final HeapColumn[] columns = new HeapColumn[type.getFieldCount()];
        for (int i = 0; i < columns.length; i++) {
            columns[i] = copy(type.getTypeAt(i), rows, addresses, next);
        }
        return columns;
    }

    private static HeapColumn copy(LogicalType type, int rows, long[] addresses, Cursor next) {
        final int at = 4 * next.column++;
        final Bits valid = addresses[at] == 0 ? null : Bits.copy(addresses[at], addresses[at + 3], rows);
        final long values = addresses[at + 1];
        final long data = addresses[at + 2];
        return switch (PhysicalType.of(type)) {
            case BOOLEAN -> new OfBoolean(valid, Bits.copy(values, data, rows));
            case INT8 -> new OfInt8(valid, OffHeap.bytes(values, rows));
            case INT16 -> new OfInt16(valid, OffHeap.shorts(values, rows));
            case INT32 -> new OfInt32(valid, OffHeap.ints(values, rows));
            case INT64 -> new OfInt64(valid, OffHeap.longs(values, rows));
            case FLOAT32 -> new OfFloat32(valid, OffHeap.floats(values, rows));
            case FLOAT64 -> new OfFloat64(valid, OffHeap.doubles(values, rows));
            case DECIMAL -> new OfDecimal(valid, OffHeap.longs(values, 2 * rows), (DecimalType) type);
            case MILLIS -> new OfMillis(valid, OffHeap.longs(values, rows));
            case NANOS -> new OfNanos(valid, OffHeap.longs(values, 2 * rows));
            case TEXT -> new OfText(valid, new VariableValues(values, data, rows));
            case BYTES -> new OfBytes(valid, new VariableValues(values, data, rows));
            case ARRAY -> new OfArray(valid, new VariableValues(values, data, rows));
            case MAP -> new OfMap(valid, new VariableValues(values, data, rows));
            case ROW -> new OfRow(valid, copyAll((RowType) type, rows, addresses, next));
        };
    }

    boolean getBoolean(int row) {
        throw wrongType("BOOLEAN");
    }

    byte getByte(int row) {
        throw wrongType("TINYINT");
    }

    short getShort(int row) {
        throw wrongType("SMALLINT");
    }

    int getInt(int row) {
        throw wrongType("INT");
    }

    long getLong(int row) {
        throw wrongType("BIGINT");
    }

    float getFloat(int row) {
        throw wrongType("FLOAT");
    }

    double getDouble(int row) {
        throw wrongType("DOUBLE");
    }

    StringData getString(int row) {
        throw wrongType("STRING");
    }

    byte[] getBinary(int row) {
        throw wrongType("BYTES");
    }

    DecimalData getDecimal(int row) {
        throw wrongType("DECIMAL");
    }

    TimestampData getTimestamp(int row) {
        throw wrongType("TIMESTAMP");
    }

    RowData getRow(int row) {
        throw wrongType("ROW");
    }

    ArrayData getArray(int row) {
        throw wrongType("ARRAY");
    }

    MapData getMap(int row) {
        throw wrongType("MAP");
    }

    /** The value as the object that a {@code GenericRowData} would hold. */
    abstract Object getObject(int row);

    /** The same column with values that share nothing, for whoever keeps few of them for long. */
    HeapColumn detached() {
        return this;
    }

    private ClassCastException wrongType(String type) {
        return new ClassCastException(getClass().getSimpleName() + " is no column of " + type);
    }

    /** The next column in depth-first order. */
    static final class Cursor {
        private int column;

        int column() {
            return column;
        }
    }

    /** Bits, least significant first, from some bit on. */
    private record Bits(byte[] bytes, int first) {

        static Bits copy(long address, long firstBit, int count) {
            final int first = (int) (firstBit & 7);
            return new Bits(OffHeap.bytes(address + (firstBit >> 3), (first + count + 7) >> 3), first);
        }

        boolean get(int index) {
            final int bit = first + index;
            return (bytes[bit >> 3] >> (bit & 7) & 1) != 0;
        }
    }

    private static final class Absent extends HeapColumn {
        Absent() {
            super(null);
        }

        @Override
        boolean isNull(int row) {
            return true;
        }

        @Override
        Object getObject(int row) {
            return null;
        }
    }

    private static final class OfBoolean extends HeapColumn {
        private final Bits values;

        OfBoolean(Bits valid, Bits values) {
            super(valid);
            this.values = values;
        }

        @Override
        boolean getBoolean(int row) {
            return values.get(row);
        }

        @Override
        Object getObject(int row) {
            return getBoolean(row);
        }
    }

    private static final class OfInt8 extends HeapColumn {
        private final byte[] values;

        OfInt8(Bits valid, byte[] values) {
            super(valid);
            this.values = values;
        }

        @Override
        byte getByte(int row) {
            return values[row];
        }

        @Override
        Object getObject(int row) {
            return values[row];
        }
    }

    private static final class OfInt16 extends HeapColumn {
        private final short[] values;

        OfInt16(Bits valid, short[] values) {
            super(valid);
            this.values = values;
        }

        @Override
        short getShort(int row) {
            return values[row];
        }

        @Override
        Object getObject(int row) {
            return values[row];
        }
    }

    private static final class OfInt32 extends HeapColumn {
        private final int[] values;

        OfInt32(Bits valid, int[] values) {
            super(valid);
            this.values = values;
        }

        @Override
        int getInt(int row) {
            return values[row];
        }

        @Override
        Object getObject(int row) {
            return values[row];
        }
    }

    private static final class OfInt64 extends HeapColumn {
        private final long[] values;

        OfInt64(Bits valid, long[] values) {
            super(valid);
            this.values = values;
        }

        @Override
        long getLong(int row) {
            return values[row];
        }

        @Override
        Object getObject(int row) {
            return values[row];
        }
    }

    private static final class OfFloat32 extends HeapColumn {
        private final float[] values;

        OfFloat32(Bits valid, float[] values) {
            super(valid);
            this.values = values;
        }

        @Override
        float getFloat(int row) {
            return values[row];
        }

        @Override
        Object getObject(int row) {
            return values[row];
        }
    }

    private static final class OfFloat64 extends HeapColumn {
        private final double[] values;

        OfFloat64(Bits valid, double[] values) {
            super(valid);
            this.values = values;
        }

        @Override
        double getDouble(int row) {
            return values[row];
        }

        @Override
        Object getObject(int row) {
            return values[row];
        }
    }

    private static final class OfDecimal extends HeapColumn {
        private final long[] halves;
        private final int precision;
        private final int scale;

        OfDecimal(Bits valid, long[] halves, DecimalType type) {
            super(valid);
            this.halves = halves;
            this.precision = type.getPrecision();
            this.scale = type.getScale();
        }

        @Override
        DecimalData getDecimal(int row) {
            final long low = halves[2 * row];
            if (DecimalData.isCompact(precision)) {
                return DecimalData.fromUnscaledLong(low, precision, scale);
            }
            final long high = halves[2 * row + 1];
            final BigInteger unscaled =
                    high == low >> 63
                            ? BigInteger.valueOf(low)
                            : new BigInteger(ByteBuffer.allocate(16).putLong(high).putLong(low).array());
            return DecimalData.fromBigDecimal(new BigDecimal(unscaled, scale), precision, scale);
        }

        @Override
        Object getObject(int row) {
            return getDecimal(row);
        }
    }

    private static final class OfMillis extends HeapColumn {
        private final long[] values;

        OfMillis(Bits valid, long[] values) {
            super(valid);
            this.values = values;
        }

        @Override
        TimestampData getTimestamp(int row) {
            return TimestampData.fromEpochMillis(values[row]);
        }

        @Override
        Object getObject(int row) {
            return getTimestamp(row);
        }
    }

    private static final class OfNanos extends HeapColumn {
        private final long[] halves;

        OfNanos(Bits valid, long[] halves) {
            super(valid);
            this.halves = halves;
        }

        @Override
        TimestampData getTimestamp(int row) {
            return fromNanos(halves[2 * row], halves[2 * row + 1]);
        }

        @Override
        Object getObject(int row) {
            return getTimestamp(row);
        }
    }

    /** The timestamp at {@code high * 2^64 + low} (low unsigned) nanoseconds since the epoch. */
    static TimestampData fromNanos(long low, long high) {
        if (high == low >> 63) {
            return TimestampData.fromEpochMillis(
                    Math.floorDiv(low, NANOS_PER_MILLI), (int) Math.floorMod(low, NANOS_PER_MILLI));
        }
        // 2^64 = 18446744073709 * NANOS_PER_MILLI + 551616; a timestamp's high half is a few dozen at most
        final long rest = high * 551_616 + Long.remainderUnsigned(low, NANOS_PER_MILLI);
        final long millis =
                high * 18_446_744_073_709L
                        + Long.divideUnsigned(low, NANOS_PER_MILLI)
                        + Math.floorDiv(rest, NANOS_PER_MILLI);
        return TimestampData.fromEpochMillis(millis, (int) Math.floorMod(rest, NANOS_PER_MILLI));
    }

    /** The bytes of all rows in one array, which the values share. */
    private static final class VariableValues {
        private final int[] offsets;
        private final int base;
        private final byte[] bytes;

        VariableValues(long offsets, long data, int rows) {
            this.offsets = rows == 0 ? new int[1] : OffHeap.ints(offsets, rows + 1);
            this.base = this.offsets[0]; // a slice does not begin at the start of its data
            this.bytes = OffHeap.bytes(data + base, this.offsets[rows] - base);
        }

        int start(int row) {
            return offsets[row] - base;
        }

        int length(int row) {
            return offsets[row + 1] - offsets[row];
        }

        /** The bytes of one value alone. */
        byte[] copy(int row) {
            final int start = start(row);
            return Arrays.copyOfRange(bytes, start, start + length(row));
        }

        MemorySegment[] segments() {
            return new MemorySegment[] {MemorySegmentFactory.wrap(bytes)};
        }
    }

    private static final class OfText extends HeapColumn {
        private final VariableValues values;
        private final MemorySegment[] segments;

        OfText(Bits valid, VariableValues values) {
            super(valid);
            this.values = values;
            this.segments = values.segments();
        }

        @Override
        StringData getString(int row) {
            return BinaryStringData.fromAddress(segments, values.start(row), values.length(row));
        }

        @Override
        HeapColumn detached() {
            return new OfDetachedText(this);
        }

        @Override
        Object getObject(int row) {
            return getString(row);
        }
    }

    private static final class OfDetachedText extends HeapColumn {
        private final VariableValues values;

        OfDetachedText(OfText shared) {
            super(shared.valid());
            this.values = shared.values;
        }

        @Override
        StringData getString(int row) {
            return BinaryStringData.fromBytes(values.copy(row));
        }

        @Override
        Object getObject(int row) {
            return getString(row);
        }
    }

    private static final class OfBytes extends HeapColumn {
        private final VariableValues values;

        OfBytes(Bits valid, VariableValues values) {
            super(valid);
            this.values = values;
        }

        @Override
        byte[] getBinary(int row) {
            return values.copy(row);
        }

        @Override
        Object getObject(int row) {
            return getBinary(row);
        }
    }

    private static final class OfArray extends HeapColumn {
        private final VariableValues values;
        private final MemorySegment[] segments;

        OfArray(Bits valid, VariableValues values) {
            super(valid);
            this.values = values;
            this.segments = values.segments();
        }

        @Override
        ArrayData getArray(int row) {
            final BinaryArrayData array = new BinaryArrayData();
            array.pointTo(segments, values.start(row), values.length(row));
            return array;
        }

        @Override
        Object getObject(int row) {
            return getArray(row);
        }
    }

    private static final class OfMap extends HeapColumn {
        private final VariableValues values;
        private final MemorySegment[] segments;

        OfMap(Bits valid, VariableValues values) {
            super(valid);
            this.values = values;
            this.segments = values.segments();
        }

        @Override
        MapData getMap(int row) {
            final BinaryMapData map = new BinaryMapData();
            map.pointTo(segments, values.start(row), values.length(row));
            return map;
        }

        @Override
        Object getObject(int row) {
            return getMap(row);
        }
    }

    private static final class OfRow extends HeapColumn {
        private final HeapColumn[] children;

        OfRow(Bits valid, HeapColumn[] children) {
            super(valid);
            this.children = children;
        }

        @Override
        RowData getRow(int row) {
            return new ColumnarRow(children, row);
        }

        @Override
        HeapColumn detached() {
            return new OfRow(valid(), Arrays.stream(children).map(HeapColumn::detached).toArray(HeapColumn[]::new));
        }

        @Override
        Object getObject(int row) {
            return getRow(row);
        }
    }
}
