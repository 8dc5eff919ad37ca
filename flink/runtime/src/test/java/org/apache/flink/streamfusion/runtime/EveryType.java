package org.apache.flink.streamfusion.runtime;

import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.runtime.typeutils.RowDataSerializer;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.types.RowKind;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;

/** A row type with every type that batches carry, and rows of it: edge values first, then random ones. */
final class EveryType {

    static final RowType TYPE =
            (RowType)
                    DataTypes.ROW(
                                    DataTypes.FIELD("bool", DataTypes.BOOLEAN()),
                                    DataTypes.FIELD("int8", DataTypes.TINYINT()),
                                    DataTypes.FIELD("int16", DataTypes.SMALLINT()),
                                    DataTypes.FIELD("int32", DataTypes.INT()),
                                    DataTypes.FIELD("int64", DataTypes.BIGINT()),
                                    DataTypes.FIELD("float32", DataTypes.FLOAT()),
                                    DataTypes.FIELD("float64", DataTypes.DOUBLE()),
                                    DataTypes.FIELD("dec_compact", DataTypes.DECIMAL(18, 4)),
                                    DataTypes.FIELD("dec", DataTypes.DECIMAL(38, 10)),
                                    DataTypes.FIELD("fixed_text", DataTypes.CHAR(3)),
                                    DataTypes.FIELD("text", DataTypes.STRING()),
                                    DataTypes.FIELD("fixed_bytes", DataTypes.BINARY(2)),
                                    DataTypes.FIELD("bytes", DataTypes.BYTES()),
                                    DataTypes.FIELD("day", DataTypes.DATE()),
                                    DataTypes.FIELD("time", DataTypes.TIME(3)),
                                    DataTypes.FIELD("ts0", DataTypes.TIMESTAMP(0)),
                                    DataTypes.FIELD("ts3", DataTypes.TIMESTAMP(3)),
                                    DataTypes.FIELD("ts9", DataTypes.TIMESTAMP(9)),
                                    DataTypes.FIELD("ltz3", DataTypes.TIMESTAMP_LTZ(3)),
                                    DataTypes.FIELD("ltz6", DataTypes.TIMESTAMP_LTZ(6)),
                                    DataTypes.FIELD("months", DataTypes.INTERVAL(DataTypes.YEAR(), DataTypes.MONTH())),
                                    DataTypes.FIELD("millis", DataTypes.INTERVAL(DataTypes.DAY(), DataTypes.SECOND(3))),
                                    DataTypes.FIELD(
                                            "nested",
                                            DataTypes.ROW(
                                                    DataTypes.FIELD("a", DataTypes.BIGINT()),
                                                    DataTypes.FIELD(
                                                            "b",
                                                            DataTypes.ROW(
                                                                    DataTypes.FIELD("s", DataTypes.STRING()),
                                                                    DataTypes.FIELD("t", DataTypes.TIMESTAMP(9)))),
                                                    DataTypes.FIELD("c", DataTypes.BOOLEAN()))))
                            .getLogicalType();

    private static final LocalDateTime YEAR_1 = LocalDateTime.of(1, 1, 1, 0, 0);
    private static final LocalDateTime YEAR_9999 = LocalDateTime.of(9999, 12, 31, 23, 59, 59, 999_999_999);

    private EveryType() {}

    static List<RowData> rows(int count, long seed) {
        final Random random = new Random(seed);
        final List<RowData> rows = new ArrayList<>(edges());
        while (rows.size() < count) {
            rows.add(random(random));
        }
        return rows.subList(0, count);
    }

    /** The positions of all fields but those that nest others. */
    static int[] flatFields() {
        return IntStream.range(0, TYPE.getFieldCount())
                .filter(field -> !(TYPE.getTypeAt(field) instanceof RowType))
                .toArray();
    }

    static RowType select(int[] fields) {
        return RowType.of(IntStream.of(fields).mapToObj(TYPE::getTypeAt).toArray(LogicalType[]::new));
    }

    static RowData select(RowData row, int[] fields) {
        final Object[] values = IntStream.of(fields)
                .mapToObj(field -> RowData.createFieldGetter(TYPE.getTypeAt(field), field).getFieldOrNull(row))
                .toArray();
        return GenericRowData.ofKind(row.getRowKind(), values);
    }

    /** The same rows as BinaryRowData. */
    static List<RowData> binary(List<RowData> rows) {
        final RowDataSerializer serializer = new RowDataSerializer(TYPE);
        final List<RowData> binary = new ArrayList<>();
        rows.forEach(row -> binary.add(serializer.toBinaryRow(row).copy()));
        return binary;
    }

    private static List<RowData> edges() {
        return List.of(
                new GenericRowData(TYPE.getFieldCount()),
                GenericRowData.of(
                        true,
                        Byte.MIN_VALUE,
                        Short.MIN_VALUE,
                        Integer.MIN_VALUE,
                        Long.MIN_VALUE,
                        Float.NaN,
                        Double.NaN,
                        decimal("-99999999999999.9999", 18, 4),
                        decimal("-9999999999999999999999999999.9999999999", 38, 10),
                        StringData.fromString("abc"),
                        StringData.fromString(""),
                        new byte[] {0, -1},
                        new byte[0],
                        (int) YEAR_1.toLocalDate().toEpochDay(),
                        0,
                        TimestampData.fromLocalDateTime(YEAR_1),
                        TimestampData.fromLocalDateTime(YEAR_1),
                        TimestampData.fromLocalDateTime(YEAR_1),
                        TimestampData.fromEpochMillis(-1),
                        TimestampData.fromEpochMillis(-1, 999_000),
                        Integer.MIN_VALUE,
                        Long.MIN_VALUE,
                        GenericRowData.of(
                                Long.MIN_VALUE,
                                GenericRowData.of(StringData.fromString(""), TimestampData.fromEpochMillis(-1, 999_999)),
                                false)),
                GenericRowData.of(
                        false,
                        Byte.MAX_VALUE,
                        Short.MAX_VALUE,
                        Integer.MAX_VALUE,
                        Long.MAX_VALUE,
                        -0.0f,
                        -0.0d,
                        decimal("99999999999999.9999", 18, 4),
                        decimal("9999999999999999999999999999.9999999999", 38, 10),
                        StringData.fromString("äöü"),
                        StringData.fromString("\uD83D\uDE00 and a text of more than a few words, \u0000 and \uFFFF"),
                        new byte[] {1, 2},
                        new byte[300],
                        (int) YEAR_9999.toLocalDate().toEpochDay(),
                        86_399_999,
                        TimestampData.fromEpochMillis(253_402_300_799_000L),
                        TimestampData.fromEpochMillis(253_402_300_799_999L),
                        TimestampData.fromLocalDateTime(YEAR_9999),
                        TimestampData.fromEpochMillis(0),
                        TimestampData.fromEpochMillis(253_402_300_799_999L, 999_000),
                        Integer.MAX_VALUE,
                        Long.MAX_VALUE,
                        GenericRowData.of(null, null, null)),
                GenericRowData.of(
                        null,
                        (byte) -1,
                        null,
                        -1,
                        null,
                        Float.NEGATIVE_INFINITY,
                        Double.MIN_VALUE,
                        decimal("0.0001", 18, 4),
                        decimal("-0.0000000001", 38, 10),
                        null,
                        null,
                        null,
                        null,
                        -1,
                        null,
                        TimestampData.fromEpochMillis(-1000),
                        null,
                        TimestampData.fromEpochMillis(9_223_372_036_854L, 775_808),
                        null,
                        TimestampData.fromEpochMillis(-9_223_372_036_855L, 224_000),
                        null,
                        null,
                        GenericRowData.of(1L, GenericRowData.of(null, null), true)));
    }

    private static DecimalData decimal(String text, int precision, int scale) {
        return DecimalData.fromBigDecimal(new BigDecimal(text), precision, scale);
    }

    private static RowData random(Random random) {
        final GenericRowData row = new GenericRowData(RowKind.fromByteValue((byte) random.nextInt(4)), 23);
        final Object[] values = {
            random.nextBoolean(),
            (byte) random.nextInt(),
            (short) random.nextInt(),
            random.nextInt(),
            random.nextLong(),
            Float.intBitsToFloat(random.nextInt()),
            Double.longBitsToDouble(random.nextLong()),
            DecimalData.fromUnscaledLong(random.nextLong() % 1_000_000_000_000_000_000L, 18, 4),
            DecimalData.fromBigDecimal(
                    new BigDecimal(new BigInteger(random.nextInt(126), random), 10), 38, 10),
            text(random, 3),
            text(random, random.nextInt(40)),
            bytes(random, 2),
            bytes(random, random.nextInt(40)),
            random.nextInt(),
            random.nextInt(86_400_000),
            TimestampData.fromEpochMillis(millis(random) / 1000 * 1000),
            TimestampData.fromEpochMillis(millis(random)),
            TimestampData.fromEpochMillis(millis(random), random.nextInt(1_000_000)),
            TimestampData.fromEpochMillis(millis(random)),
            TimestampData.fromEpochMillis(millis(random), random.nextInt(1000) * 1000),
            random.nextInt(),
            random.nextLong(),
            GenericRowData.of(
                    random.nextBoolean() ? null : random.nextLong(),
                    random.nextBoolean()
                            ? null
                            : GenericRowData.of(
                                    text(random, 9),
                                    TimestampData.fromEpochMillis(millis(random), random.nextInt(1_000_000))),
                    random.nextBoolean())
        };
        for (int i = 0; i < values.length; i++) {
            row.setField(i, random.nextInt(5) == 0 ? null : values[i]);
        }
        return row;
    }

    private static StringData text(Random random, int characters) {
        final StringBuilder text = new StringBuilder();
        for (int i = 0; i < characters; i++) {
            text.appendCodePoint(random.nextInt(8) == 0 ? 0x1F600 + random.nextInt(64) : 'a' + random.nextInt(26));
        }
        return StringData.fromString(text.toString());
    }

    private static byte[] bytes(Random random, int length) {
        final byte[] bytes = new byte[length];
        random.nextBytes(bytes);
        return bytes;
    }

    private static long millis(Random random) {
        return -62_135_596_800_000L + (long) (random.nextDouble() * 315_537_897_599_999L);
    }
}
