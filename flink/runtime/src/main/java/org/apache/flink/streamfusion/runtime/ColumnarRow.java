package org.apache.flink.streamfusion.runtime;

import org.apache.flink.table.data.ArrayData;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.MapData;
import org.apache.flink.table.data.RawValueData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.types.RowKind;
import org.apache.flink.types.variant.Variant;

/**
 * One row of a batch that was copied to the heap. It never changes but for its row kind, so it may be kept; it then keeps
 * the columns of its batch alive.
 *
 * <p>Unlike Flink's {@code ColumnarRowData} it can be compared, hashed and printed, because a stock operator may do so with
 * its input: rows of this class are equal if kind and fields are, as those of {@link GenericRowData}.
 */
final class ColumnarRow implements RowData {

    private final HeapColumn[] columns;
    private final int row;
    private RowKind kind;

    ColumnarRow(HeapColumn[] columns, int row) {
        this(columns, row, RowKind.INSERT);
    }

    ColumnarRow(HeapColumn[] columns, int row, RowKind kind) {
        this.columns = columns;
        this.row = row;
        this.kind = kind;
    }

    @Override
    public int getArity() {
        return columns.length;
    }

    @Override
    public RowKind getRowKind() {
        return kind;
    }

    @Override
    public void setRowKind(RowKind kind) {
        this.kind = kind;
    }

    @Override
    public boolean isNullAt(int pos) {
        return columns[pos].isNull(row);
    }

    @Override
    public boolean getBoolean(int pos) {
        return columns[pos].getBoolean(row);
    }

    @Override
    public byte getByte(int pos) {
        return columns[pos].getByte(row);
    }

    @Override
    public short getShort(int pos) {
        return columns[pos].getShort(row);
    }

    @Override
    public int getInt(int pos) {
        return columns[pos].getInt(row);
    }

    @Override
    public long getLong(int pos) {
        return columns[pos].getLong(row);
    }

    @Override
    public float getFloat(int pos) {
        return columns[pos].getFloat(row);
    }

    @Override
    public double getDouble(int pos) {
        return columns[pos].getDouble(row);
    }

    @Override
    public StringData getString(int pos) {
        return columns[pos].getString(row);
    }

    @Override
    public DecimalData getDecimal(int pos, int precision, int scale) {
        return columns[pos].getDecimal(row);
    }

    @Override
    public TimestampData getTimestamp(int pos, int precision) {
        return columns[pos].getTimestamp(row);
    }

    @Override
    public byte[] getBinary(int pos) {
        return columns[pos].getBinary(row);
    }

    @Override
    public RowData getRow(int pos, int numFields) {
        return columns[pos].getRow(row);
    }

    @Override
    public <T> RawValueData<T> getRawValue(int pos) {
        throw new UnsupportedOperationException("Batches carry no RAW values");
    }

    @Override
    public ArrayData getArray(int pos) {
        return columns[pos].getArray(row);
    }

    @Override
    public MapData getMap(int pos) {
        return columns[pos].getMap(row);
    }

    @Override
    public Variant getVariant(int pos) {
        throw new UnsupportedOperationException("Batches carry no VARIANT values");
    }

    private GenericRowData toGenericRow() {
        final GenericRowData generic = new GenericRowData(kind, columns.length);
        for (int i = 0; i < columns.length; i++) {
            generic.setField(i, columns[i].isNull(row) ? null : columns[i].getObject(row));
        }
        return generic;
    }

    @Override
    public boolean equals(Object other) {
        return this == other
                || other instanceof ColumnarRow && toGenericRow().equals(((ColumnarRow) other).toGenericRow());
    }

    @Override
    public int hashCode() {
        return toGenericRow().hashCode();
    }

    @Override
    public String toString() {
        return toGenericRow().toString();
    }
}
