package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.binary.BinaryRowData;
import org.apache.flink.table.runtime.typeutils.RowDataSerializer;
import org.apache.flink.table.types.logical.RowType;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.util.ArrayList;
import java.util.List;

/** Entry, stage and exit by the native methods alone. */
class NativeBatchTest extends NativeTestBase {

    private static final RowType BIGINT = RowType.of(DataTypes.BIGINT().getLogicalType());

    @Test
    void theLibraryHasTheVersionOfTheClasses() {
        assertThat(Native.version()).isEqualTo(NativeLibrary.VERSION);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 3, 64, 500})
    void everyTypeSurvivesEntryAndExit(int batchRows) {
        final List<RowData> rows = EveryType.rows(500, batchRows);
        final List<RowData> result = new ArrayList<>();
        try (RowEntry entry = entry(EveryType.TYPE, batchRows)) {
            for (RowData row : rows) {
                entry.write(row);
                if (entry.isFull()) {
                    exit(entry.finish(), EveryType.TYPE, result);
                }
            }
            exit(entry.finish(), EveryType.TYPE, result);
        }
        EntryExitTest.assertSameRows(EveryType.TYPE, result, rows);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 3, 64, 500})
    void rowsInBinaryFormAreTakenWhole(int batchRows) {
        final List<RowData> rows = EveryType.rows(500, batchRows);
        final RowDataSerializer serializer = new RowDataSerializer(EveryType.TYPE);
        final List<RowData> result = new ArrayList<>();
        try (RowEntry entry = entry(EveryType.TYPE, batchRows)) {
            entry.takeBinaryRows();
            for (RowData row : rows) {
                final BinaryRowData binary = serializer.toBinaryRow(row);
                assertThat(entry.takes(binary)).isTrue();
                entry.write(binary);
                assertThat(entry.holdsBinaryRows()).isTrue();
                binary.getSegments()[0].put(binary.getOffset(), new byte[binary.getSizeInBytes()]); // its owner may reuse it
                if (entry.isFull()) {
                    exit(entry.finish(), EveryType.TYPE, result);
                }
            }
            exit(entry.finish(), EveryType.TYPE, result);
        }
        EntryExitTest.assertSameRows(EveryType.TYPE, result, rows);
    }

    @Test
    void whereRowsOfOtherFormsComeAsWellBinaryOnesAreWrittenByField() {
        final List<RowData> rows = EveryType.rows(9, 3);
        final RowDataSerializer serializer = new RowDataSerializer(EveryType.TYPE);
        final List<RowData> result = new ArrayList<>();
        final List<Integer> cuts = new ArrayList<>();
        try (RowEntry entry = entry(EveryType.TYPE, 9)) {
            entry.takeBinaryRows();
            for (int i = 0; i < rows.size(); i++) {
                final RowData row = i == 3 || i == 7 ? rows.get(i) : serializer.toBinaryRow(rows.get(i)).copy();
                if (!entry.takes(row)) {
                    cuts.add(i);
                    exit(entry.finish(), EveryType.TYPE, result);
                }
                entry.write(row);
                assertThat(entry.holdsBinaryRows()).isEqualTo(i < 3);
            }
            exit(entry.finish(), EveryType.TYPE, result);
        }
        EntryExitTest.assertSameRows(EveryType.TYPE, result, rows);
        assertThat(cuts).containsExactly(3);
    }

    @Test
    void ofWideRowsTheFieldsAreWrittenAlone() {
        final RowType type = RowType.of(DataTypes.STRING().getLogicalType());
        final RowDataSerializer serializer = new RowDataSerializer(type);
        try (RowEntry entry = entry(type, 10)) {
            entry.takeBinaryRows();
            final int narrow = BinaryRows.MAX_BYTES_PER_COLUMN - 16; // less the word for NULLs and the slot
            for (int length : new int[] {narrow, narrow + 1}) {
                final RowData row = serializer.toBinaryRow(GenericRowData.of(StringData.fromString("x".repeat(length))));
                assertThat(entry.takes(row)).isTrue();
                entry.write(row);
                assertThat(entry.holdsBinaryRows()).isEqualTo(length == narrow);
                final List<RowData> result = new ArrayList<>();
                exit(entry.finish(), type, result);
                EntryExitTest.assertSameRows(type, result, List.of(row));
            }
        }
    }

    @ParameterizedTest
    @CsvSource({"1, false", "7, false", "500, false", "1, true", "7, true", "500, true"})
    void rowsLeaveInTheBytesOfFlinksSerializer(int batchRows, boolean lent) {
        final int[] flat = EveryType.flatFields();
        final RowType type = EveryType.select(flat);
        final RowDataSerializer serializer = new RowDataSerializer(type);
        final List<RowData> rows = new ArrayList<>();
        for (RowData row : EveryType.rows(500, batchRows)) {
            rows.add(EveryType.select(row, flat));
        }
        final long stage = Native.stageOpen(passing(type), null, 1, 128, null);
        final BinaryExit exit = new BinaryExit(type.getFieldCount(), lent);
        final List<RowData> result = new ArrayList<>();
        for (int from = 0; from < rows.size(); from += batchRows) {
            final List<RowData> some = rows.subList(from, Math.min(from + batchRows, rows.size()));
            final long batch = batch(type, some);
            assertThat(exit.emit(stage, batch, some.size(), row -> result.add(lent ? copy(row) : row))).isTrue();
            Native.batchRelease(batch);
        }
        Native.stageClose(stage);
        assertThat(result).hasSameSizeAs(rows);
        for (int i = 0; i < rows.size(); i++) {
            assertThat(result.get(i)).as("row " + i).isEqualTo(serializer.toBinaryRow(rows.get(i)));
            assertThat(result.get(i).getRowKind()).isEqualTo(rows.get(i).getRowKind());
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void rowsOfAnySizeLeaveWhole(boolean lent) {
        final RowType type = RowType.of(DataTypes.STRING().getLogicalType());
        final long stage = Native.stageOpen(passing(type), null, 1, 128, null);
        final List<RowData> rows = new ArrayList<>();
        for (int length : new int[] {0, 300_000, 1, 100_000, 100_000, 100_000, 262_128, 262_120, 7, 1_000_000, 8}) {
            rows.add(GenericRowData.of(StringData.fromString("x".repeat(length))));
        }
        final long batch = batch(type, rows);
        final List<RowData> result = new ArrayList<>();
        final BinaryExit exit = new BinaryExit(1, lent);
        assertThat(exit.emit(stage, batch, rows.size(), row -> result.add(lent ? copy(row) : row))).isTrue();
        Native.batchRelease(batch);
        Native.stageClose(stage);
        EntryExitTest.assertSameRows(type, result, rows);
    }

    @Test
    void aRowThatIsLentStaysWhileAnotherBatchGoesOut() {
        final long stage = Native.stageOpen(passing(BIGINT), null, 1, 128, null);
        final BinaryExit exit = new BinaryExit(1, true);
        final List<Long> read = new ArrayList<>();
        final long inner = batch(BIGINT, List.of(GenericRowData.of(-1L), GenericRowData.of(-2L), GenericRowData.of(-3L)));
        final long outer = batch(BIGINT, List.of(GenericRowData.of(1L), GenericRowData.of(2L), GenericRowData.of(3L)));
        exit.emit(
                stage,
                outer,
                3,
                row -> {
                    if (row.getLong(0) == 2) {
                        exit.emit(stage, inner, 3, other -> read.add(other.getLong(0)));
                    }
                    read.add(row.getLong(0));
                });
        Native.batchRelease(inner);
        Native.batchRelease(outer);
        Native.stageClose(stage);
        assertThat(read).containsExactly(1L, -1L, -2L, -3L, 2L, 3L);
    }

    private static RowData copy(RowData row) {
        return ((BinaryRowData) row).copy();
    }

    @Test
    void rowsThatNestOthersAndRowsWithoutAColumnLeaveAsViews() {
        for (String spec : new String[] {passing(EveryType.TYPE), readingNothing(BIGINT)}) {
            final RowType type = spec.equals(readingNothing(BIGINT)) ? BIGINT : EveryType.TYPE;
            final long stage = Native.stageOpen(spec, null, 1, 128, null);
            try (RowEntry entry = new RowEntry(EntryMemory.open(spec, 1), type, fields(spec, type), 1)) {
                entry.write(type == BIGINT ? GenericRowData.of(1L) : EveryType.rows(1, 1).get(0));
                final long batch = entry.finish();
                assertThat(new BinaryExit(type.getFieldCount(), true).emit(stage, batch, 1, row -> {})).isFalse();
                Native.batchRelease(batch);
            }
            Native.stageClose(stage);
        }
    }

    private static ReadFields fields(String spec, RowType type) {
        return spec.equals(readingNothing(type)) ? ReadFields.parse(readsNothing(type), type) : ReadFields.all(type);
    }

    @Test
    void everyTypeSurvivesTheNetwork() {
        final List<RowData> rows = EveryType.rows(200, 4);
        final List<RowData> result = new ArrayList<>();
        final long stage = Native.stageOpen(passing(EveryType.TYPE), null, 1, 128, null);
        final long batch = batch(EveryType.TYPE, rows);
        final byte[] encoded = NativeBatch.encode(batch);
        Native.batchRelease(batch);

        final byte[] padded = new byte[encoded.length + 9];
        System.arraycopy(encoded, 0, padded, 5, encoded.length);
        Native.stagePushEncoded(stage, 0, padded, 5, encoded.length);
        exit(Native.stagePull(stage), EveryType.TYPE, result);
        assertThat(Native.stagePull(stage)).isZero();
        EntryExitTest.assertSameRows(EveryType.TYPE, result, rows);

        for (int length : new int[] {0, 1, encoded.length / 2, encoded.length - 1}) {
            final long other = Native.stageOpen(passing(EveryType.TYPE), null, 1, 128, null);
            assertThatThrownBy(() -> Native.stagePushEncoded(other, 0, encoded, 0, length))
                    .isInstanceOf(NativeException.class);
            Native.stageClose(other);
        }
        Native.stageClose(stage);
    }

    @Test
    void rowsOutliveTheirBatch() {
        final List<RowData> rows = EveryType.rows(100, 4);
        final List<RowData> result = new ArrayList<>();
        exit(batch(EveryType.TYPE, rows), EveryType.TYPE, result); // releases the batch
        for (int i = 0; i < 10; i++) { // and the memory is used for other things
            exit(batch(EveryType.TYPE, EveryType.rows(100, i)), EveryType.TYPE, new ArrayList<>());
        }
        EntryExitTest.assertSameRows(EveryType.TYPE, result, rows);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 3, 8, 128})
    void batchesBehindAnExchangeHoldTheRowsThatFlinkSendsThere(int channels) {
        final RowType type =
                RowType.of(DataTypes.BIGINT().getLogicalType(), DataTypes.STRING().getLogicalType());
        final RowDataSerializer keys = new RowDataSerializer(type);
        final NativeKeyGroupPartitioner partitioner = NativeKeyGroupPartitioner.ofBatches(128);
        partitioner.setup(channels);
        final List<RowData> rows = new ArrayList<>();
        for (int i = 0; i < 300; i++) {
            rows.add(
                    GenericRowData.of(
                            i % 7 == 0 ? null : (long) i,
                            i % 5 == 0 ? null : StringData.fromString("key number " + i)));
        }
        final long stage = Native.stageOpen(splitting(type, 0, 1), null, channels, 128, null);
        Native.stagePush(stage, 0, batch(type, rows));
        int count = 0;
        for (long part = Native.stagePull(stage); part != 0; part = Native.stagePull(stage)) {
            final int subtask =
                    KeyGroupRangeAssignment.computeOperatorIndexForKeyGroup(128, channels, Native.batchKeyGroup(part));
            final List<RowData> result = new ArrayList<>();
            exit(part, type, result);
            for (RowData row : result) {
                final BinaryRowData key = keys.toBinaryRow(row);
                assertThat(KeyGroupRangeAssignment.assignKeyToParallelOperator(key, 128, channels)).isEqualTo(subtask);
            }
            count += result.size();
        }
        assertThat(count).isEqualTo(rows.size());
        Native.stageClose(stage);
    }

    @Test
    void textThatIsNotUtf8IsRefusedByTheNameOfItsField() {
        final RowType type =
                (RowType) DataTypes.ROW(DataTypes.FIELD("broken_field", DataTypes.STRING())).getLogicalType();
        try (RowEntry entry = entry(type, 4)) {
            entry.write(GenericRowData.of(StringData.fromBytes(new byte[] {'a', -1})));
            assertThatThrownBy(entry::finish)
                    .isInstanceOf(NativeException.class)
                    .hasMessageContaining("broken_field");
        }
    }

    @Test
    void aReleasedHandleIsAnErrorAndNotACrash() {
        final long batch = batch(BIGINT, List.of(GenericRowData.of(1L)));
        final long second = Native.batchRetain(batch);
        Native.batchRelease(batch);
        assertThatThrownBy(() -> Native.batchRelease(batch)).isInstanceOf(NativeException.class);
        assertThatThrownBy(() -> Native.batchRows(batch)).isInstanceOf(NativeException.class);
        assertThat(Native.batchRows(second)).isEqualTo(1);
        Native.batchRelease(second);

        final long stage = Native.stageOpen(passing(BIGINT), null, 1, 128, null);
        Native.stageClose(stage);
        assertThatThrownBy(() -> Native.stageClose(stage)).isInstanceOf(NativeException.class);
        assertThatThrownBy(() -> Native.stagePull(stage)).isInstanceOf(NativeException.class);
        assertThatThrownBy(() -> Native.stagePull(0)).isInstanceOf(NativeException.class);
        final long moved = batch(BIGINT, List.of(GenericRowData.of(1L)));
        assertThatThrownBy(() -> Native.stagePush(stage, 0, moved)).isInstanceOf(NativeException.class);
        assertThatThrownBy(() -> Native.batchRows(moved)).as("moved also by a push that fails").isInstanceOf(NativeException.class);
    }

    @Test
    void aPanicNamesTheNodeAndSparesTheJvm() {
        final String dropUpdateBefore =
                "{\"json\":{\"id\":7,\"type\":\"stream-exec-drop-update-before_1\",\"inputProperties\":[{\"requiredDistribution\":"
                        + "{\"type\":\"UNKNOWN\"},\"damBehavior\":\"PIPELINED\",\"priority\":0}],\"outputType\":\"ROW<`f0` BIGINT>\","
                        + "\"description\":\"DropUpdateBefore\"},\"inputs\":[6],\"types\":[\"ROW<`f0` BIGINT>\"]}";
        final long stage = Native.stageOpen(spec(BIGINT, BIGINT, dropUpdateBefore, "", "null"), null, 1, 128, null);
        Native.testPanic(stage);
        final long first = batch(BIGINT, List.of(GenericRowData.of(1L)));
        assertThatThrownBy(() -> Native.stagePush(stage, 0, first))
                .isInstanceOf(NativeException.class)
                .hasMessageContaining("DropUpdateBefore")
                .hasMessageContaining("panicked");
        final long second = batch(BIGINT, List.of(GenericRowData.of(1L)));
        assertThatThrownBy(() -> Native.stagePush(stage, 0, second)).isInstanceOf(NativeException.class);
        Native.stageClose(stage);
        assertThat(Native.version()).isNotEmpty();
    }

    @Test
    void whatIsNoSpecIsRefused() {
        for (String text : new String[] {"", "{}", "[]", "{\"input\":\"NONSENSE\"}"}) {
            assertThatThrownBy(() -> Native.stageOpen(text, null, 1, 128, null)).isInstanceOf(NativeException.class);
            assertThatThrownBy(() -> Native.entryOpen(text, 0, 1)).isInstanceOf(NativeException.class);
        }
        assertThatThrownBy(() -> Native.stageOpen(passing(BIGINT), null, 0, 128, null)).isInstanceOf(NativeException.class);
        assertThatThrownBy(() -> Native.entryOpen(passing(BIGINT), 0, -1)).isInstanceOf(NativeException.class);
        assertThatThrownBy(() -> Native.plan("no plan")).isInstanceOf(NativeException.class);
    }

    private static RowEntry entry(RowType type, int capacityRows) {
        return new RowEntry(EntryMemory.open(entrySpec(type), capacityRows), type, ReadFields.all(type), capacityRows);
    }

    private static long batch(RowType type, List<? extends RowData> rows) {
        try (RowEntry entry = entry(type, rows.size())) {
            rows.forEach(entry::write);
            return entry.finish();
        }
    }

    private static void exit(long batch, RowType type, List<RowData> result) {
        BatchExit.emit(batch, type, result::add);
        Native.batchRelease(batch);
    }
}
