package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.flink.core.memory.MemorySegment;
import org.apache.flink.core.memory.MemorySegmentFactory;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.data.binary.BinaryRowData;
import org.apache.flink.table.data.binary.BinaryStringData;
import org.apache.flink.table.runtime.typeutils.RowDataSerializer;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.types.RowKind;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** Entry and exit over memory that a fake of the library owns. */
class EntryExitTest {

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 7, 8, 64, 300})
    void everyTypeSurvivesEntryAndExitHoweverRowsAreCut(int batchRows) {
        final List<RowData> rows = EveryType.rows(300, batchRows);
        assertSameRows(EveryType.TYPE, throughColumns(EveryType.TYPE, rows, batchRows), rows);
        assertSameRows(EveryType.TYPE, throughColumns(EveryType.TYPE, EveryType.binary(rows), batchRows), rows);
    }

    /** Compares bytes: NaN payloads and the sign of zero count. */
    static void assertSameRows(RowType type, List<? extends RowData> actual, List<? extends RowData> expected) {
        final RowDataSerializer serializer = new RowDataSerializer(type);
        assertThat(actual).hasSameSizeAs(expected);
        for (int i = 0; i < expected.size(); i++) {
            final BinaryRowData expectedRow = serializer.toBinaryRow(expected.get(i)).copy();
            assertThat(serializer.toBinaryRow(actual.get(i))).as("row " + i).isEqualTo(expectedRow);
            // as a stock operator reads it, and as it is handed over between chained operators
            assertThat(serializer.toBinaryRow(serializer.copy(actual.get(i)))).as("copy " + i).isEqualTo(expectedRow);
        }
    }

    private static List<RowData> throughColumns(RowType type, List<RowData> rows, int batchRows) {
        final List<RowData> result = new ArrayList<>();
        final FakeEntryMemory memory = new FakeEntryMemory(type, ReadFields.all(type), batchRows);
        try (RowEntry entry = new RowEntry(memory, type, ReadFields.all(type), batchRows)) {
            for (RowData row : rows) {
                entry.write(row);
                if (entry.isFull()) {
                    finish(entry, memory, type, result);
                }
            }
            finish(entry, memory, type, result);
        }
        return result;
    }

    private static void finish(RowEntry entry, FakeEntryMemory memory, RowType type, List<RowData> result) {
        entry.finish();
        BatchExit.emit(memory.exported(), memory.exportedRows(), type, result::add);
    }

    @Test
    void onlyTheFieldsThatAreReadHaveColumns() {
        final ReadFields fields =
                ReadFields.parse(
                        "[null,null,null,null,{},null,null,null,null,null,null,null,null,null,null,null,null,null,null,"
                                + "null,null,null,{\"children\":[null,{\"children\":[null,{}]},{}]}]",
                        EveryType.TYPE);
        final RowType read =
                RowType.of(
                        DataTypes.BIGINT().getLogicalType(),
                        RowType.of(
                                RowType.of(DataTypes.TIMESTAMP(9).getLogicalType()),
                                DataTypes.BOOLEAN().getLogicalType()));
        final List<RowData> rows = EveryType.rows(100, 1);
        final List<RowData> expected = new ArrayList<>();
        for (RowData row : rows) {
            final RowData nested = row.isNullAt(22) ? null : row.getRow(22, 3);
            final RowData inner = nested == null || nested.isNullAt(1) ? null : nested.getRow(1, 2);
            expected.add(
                    GenericRowData.ofKind(
                            row.getRowKind(),
                            row.isNullAt(4) ? null : row.getLong(4),
                            nested == null
                                    ? null
                                    : GenericRowData.of(
                                            inner == null
                                                    ? null
                                                    : GenericRowData.of(inner.isNullAt(1) ? null : inner.getTimestamp(1, 9)),
                                            nested.isNullAt(2) ? null : nested.getBoolean(2))));
        }
        final FakeEntryMemory memory = new FakeEntryMemory(EveryType.TYPE, fields, 100);
        final List<RowData> actual = new ArrayList<>();
        try (RowEntry entry = new RowEntry(memory, EveryType.TYPE, fields, 100)) {
            rows.forEach(entry::write);
            finish(entry, memory, read, actual);
        }
        assertThat(memory.columns()).isEqualTo(5);
        assertSameRows(read, actual, expected);
    }

    @Test
    void theFieldsToReadMustFitTheType() {
        final RowType type = RowType.of(DataTypes.BIGINT().getLogicalType());
        assertThatThrownBy(() -> ReadFields.parse("[{},{}]", type)).hasMessageContaining("do not fit");
        assertThatThrownBy(() -> ReadFields.parse("{}", type)).hasMessageContaining("do not fit");
        assertThatThrownBy(() -> ReadFields.parse("[{}]", RowType.of(type))).hasMessageContaining("do not fit");
        assertThatThrownBy(() -> ReadFields.parse("[", type)).hasMessageContaining("not JSON");
    }

    @Test
    void memoryOfAnotherShapeIsRefusedAndFreed() {
        final RowType one = RowType.of(DataTypes.BIGINT().getLogicalType());
        final RowType two = RowType.of(DataTypes.BIGINT().getLogicalType(), DataTypes.BIGINT().getLogicalType());
        final FakeEntryMemory memory = new FakeEntryMemory(two, ReadFields.all(two), 1);
        assertThatThrownBy(() -> new RowEntry(memory, one, ReadFields.all(one), 1)).hasMessageContaining("2 columns");
        assertThat(memory.isClosed()).isTrue();
    }

    @Test
    void typesThatNoBatchCarriesAreRefused() {
        assertThatThrownBy(() -> PhysicalType.of(DataTypes.NULL().getLogicalType()))
                .hasMessageContaining("NULL");
    }

    @Test
    void rowKindsAreLeftOutWhenEveryRowIsAnInsert() {
        final RowType type = RowType.of(DataTypes.INT().getLogicalType());
        final FakeEntryMemory memory = new FakeEntryMemory(type, ReadFields.all(type), 4);
        try (RowEntry entry = new RowEntry(memory, type, ReadFields.all(type), 4)) {
            entry.write(GenericRowData.of(1));
            entry.finish();
            assertThat(memory.exportedKinds()).isFalse();
            entry.write(GenericRowData.of(1));
            entry.write(GenericRowData.ofKind(RowKind.DELETE, 2));
            entry.finish();
            assertThat(memory.exportedKinds()).isTrue();
            entry.write(GenericRowData.of(1));
            entry.finish();
            assertThat(memory.exportedKinds()).isFalse();
        }
    }

    @Test
    void aBatchIsFullOfRowsOrOfBytes() {
        final RowType type = RowType.of(DataTypes.BYTES().getLogicalType());
        final FakeEntryMemory memory = new FakeEntryMemory(type, ReadFields.all(type), 20);
        try (RowEntry entry = new RowEntry(memory, type, ReadFields.all(type), 20)) {
            for (int i = 0; i < 20; i++) {
                assertThat(entry.isFull()).isFalse();
                entry.write(GenericRowData.of((Object) new byte[10]));
            }
            assertThat(entry.isFull()).isTrue();
            assertThatThrownBy(() -> entry.write(GenericRowData.of((Object) new byte[0]))).hasMessageContaining("full");
            entry.finish();
            assertThat(entry.isFull()).isFalse();
            final byte[] mebibyte = new byte[1 << 20];
            for (int i = 0; i < 16; i++) {
                assertThat(entry.isFull()).isFalse();
                entry.write(GenericRowData.of((Object) mebibyte));
            }
            assertThat(entry.isFull()).isTrue();
            entry.finish();
        }
    }

    @Test
    void dataBuffersAreReservedOncePerBatchWhenBatchesAreAlike() {
        final RowType type = RowType.of(DataTypes.BYTES().getLogicalType());
        final FakeEntryMemory memory = new FakeEntryMemory(type, ReadFields.all(type), 1000);
        try (RowEntry entry = new RowEntry(memory, type, ReadFields.all(type), 1000)) {
            for (int batch = 0; batch < 3; batch++) {
                final int before = memory.reservations();
                for (int i = 0; i < 1000; i++) {
                    entry.write(GenericRowData.of((Object) new byte[1000]));
                }
                entry.finish();
                assertThat(memory.reservations() - before).isEqualTo(batch == 0 ? 5 : 1);
            }
        }
    }

    @Test
    void valuesOfNullAreZero() {
        final RowType type = EveryType.TYPE;
        final FakeEntryMemory memory = new FakeEntryMemory(type, ReadFields.all(type), 1);
        try (RowEntry entry = new RowEntry(memory, type, ReadFields.all(type), 1)) {
            entry.write(new GenericRowData(type.getFieldCount()));
            entry.finish();
            for (int column = 1; column < memory.columns(); column++) { // the first has become bits
                final byte[] bytes = memory.valueBytes(column, 0);
                assertThat(bytes).isEqualTo(new byte[bytes.length]);
            }
        }
    }

    @Test
    void decimalsAreSixteenBytesLittleEndian() {
        final LogicalType decimal = DataTypes.DECIMAL(38, 2).getLogicalType();
        final BigInteger large = BigInteger.ONE.shiftLeft(70).add(BigInteger.TWO);
        assertThat(decimalBytes(decimal, new BigDecimal("-1.00"))).isEqualTo(FakeEntryMemory.littleEndian(-100, -1));
        assertThat(decimalBytes(decimal, new BigDecimal(large, 2))).isEqualTo(FakeEntryMemory.littleEndian(2, 64));
        assertThat(decimalBytes(decimal, new BigDecimal(large.negate(), 2)))
                .isEqualTo(FakeEntryMemory.littleEndian(-2, -65));
    }

    @Test
    void decimalsOfAnotherScaleThanTheirTypeKeepTheirValue() {
        final LogicalType decimal = DataTypes.DECIMAL(10, 4).getLogicalType();
        assertThat(decimalBytes(decimal, new BigDecimal("1.5"))).isEqualTo(FakeEntryMemory.littleEndian(15_000, 0));
        assertThatThrownBy(() -> decimalBytes(decimal, new BigDecimal("0.00001")))
                .isInstanceOf(ArithmeticException.class);
    }

    private static byte[] decimalBytes(LogicalType decimal, BigDecimal value) {
        final RowType type = RowType.of(decimal);
        final FakeEntryMemory memory = new FakeEntryMemory(type, ReadFields.all(type), 1);
        try (RowEntry entry = new RowEntry(memory, type, ReadFields.all(type), 1)) {
            entry.write(GenericRowData.of(DecimalData.fromBigDecimal(value, value.precision(), value.scale())));
            entry.finish();
            return memory.valueBytes(0, 0);
        }
    }

    @Test
    void stringsMayLieInSeveralSegmentsAndOffTheHeap() {
        final byte[] text = "a text that is longer than one segment".getBytes(StandardCharsets.UTF_8);
        final MemorySegment[] onHeap = new MemorySegment[6];
        final MemorySegment[] offHeap = {MemorySegmentFactory.allocateUnpooledOffHeapMemory(text.length + 4)};
        for (int i = 0; i < onHeap.length; i++) {
            onHeap[i] = MemorySegmentFactory.allocateUnpooledSegment(8);
        }
        for (int i = 0; i < text.length; i++) {
            onHeap[(i + 3) / 8].put((i + 3) % 8, text[i]);
            offHeap[0].put(i + 4, text[i]);
        }
        final RowType type = RowType.of(DataTypes.STRING().getLogicalType());
        final List<RowData> rows =
                List.of(
                        GenericRowData.of(BinaryStringData.fromAddress(onHeap, 3, text.length)),
                        GenericRowData.of(BinaryStringData.fromAddress(offHeap, 4, text.length)),
                        GenericRowData.of(StringData.fromBytes(text)));
        assertThat(throughColumns(type, rows, 3)).allSatisfy(row -> assertThat(row.getString(0)).hasToString(new String(text, StandardCharsets.UTF_8)));
    }

    @Test
    void nanosecondsOfAnyYearBecomeTheirTimestamp() {
        final Random random = new Random(7);
        for (int i = 0; i < 10_000; i++) {
            final TimestampData timestamp =
                    TimestampData.fromEpochMillis(
                            random.nextLong() >> random.nextInt(20) >> 10, random.nextInt(1_000_000));
            final BigInteger nanos =
                    BigInteger.valueOf(timestamp.getMillisecond())
                            .multiply(BigInteger.valueOf(1_000_000))
                            .add(BigInteger.valueOf(timestamp.getNanoOfMillisecond()));
            assertThat(HeapColumn.fromNanos(nanos.longValue(), nanos.shiftRight(64).longValue())).isEqualTo(timestamp);
        }
    }

    @Test
    void rowsCanBeComparedHashedAndPrinted() {
        final List<RowData> rows = EveryType.rows(50, 3);
        final List<RowData> once = throughColumns(EveryType.TYPE, rows, 50);
        final List<RowData> again = throughColumns(EveryType.TYPE, rows, 7);
        for (int i = 0; i < rows.size(); i++) {
            assertThat(once.get(i)).isEqualTo(again.get(i)).hasSameHashCodeAs(again.get(i)).hasToString(rows.get(i).toString());
            assertThat(once.get(i)).isNotEqualTo(once.get((i + 1) % rows.size())).isNotEqualTo(null);
        }
        final RowData retracted = once.get(1);
        retracted.setRowKind(RowKind.DELETE);
        assertThat(retracted).isNotEqualTo(again.get(1));
    }

    @Test
    void aFieldOfAnotherTypeIsNotReadByMistake() {
        final RowData row = throughColumns(EveryType.TYPE, EveryType.rows(2, 1), 2).get(1);
        assertThatThrownBy(() -> row.getLong(0)).isInstanceOf(ClassCastException.class);
        assertThatThrownBy(() -> row.getString(4)).isInstanceOf(ClassCastException.class);
        assertThatThrownBy(() -> row.getArray(0)).isInstanceOf(ClassCastException.class);
    }

    @Test
    void absentColumnsAreNull() {
        assertThat(new ColumnarRow(new HeapColumn[] {HeapColumn.ABSENT}, 5).isNullAt(0)).isTrue();
    }

    @Test
    void aTypeOfAnotherShapeThanTheBatchIsRefused() {
        final RowType type = RowType.of(DataTypes.INT().getLogicalType(), DataTypes.INT().getLogicalType());
        final FakeEntryMemory memory = new FakeEntryMemory(type, ReadFields.all(type), 1);
        try (RowEntry entry = new RowEntry(memory, type, ReadFields.all(type), 1)) {
            entry.write(GenericRowData.of(1, 2));
            entry.finish();
            assertThatThrownBy(
                            () ->
                                    BatchExit.columns(
                                            memory.exported(), 1, RowType.of(DataTypes.INT().getLogicalType())))
                    .hasMessageContaining("2 columns");
        }
    }
}
