package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.data.binary.BinaryRowData;
import org.apache.flink.table.planner.plan.utils.KeySelectorUtil;
import org.apache.flink.table.runtime.keyselector.RowDataKeySelector;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.BinaryType;
import org.apache.flink.table.types.logical.BooleanType;
import org.apache.flink.table.types.logical.CharType;
import org.apache.flink.table.types.logical.DateType;
import org.apache.flink.table.types.logical.DayTimeIntervalType;
import org.apache.flink.table.types.logical.DecimalType;
import org.apache.flink.table.types.logical.DoubleType;
import org.apache.flink.table.types.logical.FloatType;
import org.apache.flink.table.types.logical.IntType;
import org.apache.flink.table.types.logical.LocalZonedTimestampType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.SmallIntType;
import org.apache.flink.table.types.logical.TimeType;
import org.apache.flink.table.types.logical.TimestampType;
import org.apache.flink.table.types.logical.TinyIntType;
import org.apache.flink.table.types.logical.VarBinaryType;
import org.apache.flink.table.types.logical.VarCharType;
import org.apache.flink.table.types.logical.YearMonthIntervalType;

import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** Random rows of all key types get the key group that Flink's own key selector and hash give them. */
@EnabledIfSystemProperty(named = "streamfusion.native.library", matches = ".+")
class KeyGroupFuzzTest {

    private static final int ROWS = 500;

    private static final List<LogicalType> TYPES =
            List.of(
                    new BooleanType(),
                    new TinyIntType(),
                    new SmallIntType(),
                    new IntType(),
                    new BigIntType(),
                    new FloatType(),
                    new DoubleType(),
                    new DecimalType(10, 2),
                    new DecimalType(18, 0),
                    new DecimalType(19, 4),
                    new DecimalType(38, 10),
                    new CharType(3),
                    VarCharType.STRING_TYPE,
                    new BinaryType(9),
                    new VarBinaryType(VarBinaryType.MAX_LENGTH),
                    new DateType(),
                    new TimeType(3),
                    new TimestampType(0),
                    new TimestampType(3),
                    new TimestampType(6),
                    new TimestampType(9),
                    new LocalZonedTimestampType(3),
                    new LocalZonedTimestampType(9),
                    new YearMonthIntervalType(YearMonthIntervalType.YearMonthResolution.YEAR_TO_MONTH),
                    new DayTimeIntervalType(DayTimeIntervalType.DayTimeResolution.DAY_TO_SECOND));

    @BeforeAll
    static void theLibraryIsThere() {
        assertThat(NativeLibrary.unavailableReason()).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(ints = {128, 200, 32768})
    void oneKeyOfEveryType(int maxParallelism) throws Exception {
        final Random random = new Random(maxParallelism);
        for (LogicalType type : TYPES) {
            compare(List.of(type), maxParallelism, random);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {128, 200, 32768})
    void severalKeysOfRandomTypes(int maxParallelism) throws Exception {
        final Random random = new Random(7L * maxParallelism);
        for (int i = 0; i < 40; i++) {
            final int keys = i == 0 ? 60 : 2 + random.nextInt(6); // more than 56 fields have a second word of NULL bits
            compare(
                    IntStream.range(0, keys)
                            .mapToObj(key -> TYPES.get(random.nextInt(TYPES.size())))
                            .collect(Collectors.toList()),
                    maxParallelism,
                    random);
        }
    }

    /** Compares rows of the key types and, as the last field, their number. */
    private static void compare(List<LogicalType> keyTypes, int maxParallelism, Random random) throws Exception {
        final List<LogicalType> types = new ArrayList<>(keyTypes);
        types.add(new BigIntType());
        final RowType rowType = RowType.of(types.toArray(new LogicalType[0]));
        final int[] keys = IntStream.range(0, keyTypes.size()).toArray();
        final List<RowData> rows = new ArrayList<>();
        for (long n = 0; n < ROWS; n++) {
            final GenericRowData row = new GenericRowData(types.size());
            for (int key : keys) {
                row.setField(key, random.nextInt(6) == 0 ? null : value(keyTypes.get(key), random));
            }
            row.setField(keys.length, n);
            rows.add(row);
        }

        final RowDataKeySelector selector =
                KeySelectorUtil.getRowDataSelector(
                        KeyGroupFuzzTest.class.getClassLoader(), keys, InternalTypeInfo.of(rowType));
        final TreeMap<Long, Integer> expected = new TreeMap<>();
        for (int n = 0; n < ROWS; n++) {
            final BinaryRowData key = (BinaryRowData) selector.getKey(rows.get(n));
            expected.put((long) n, KeyGroupRangeAssignment.assignToKeyGroup(key, maxParallelism));
        }
        assertThat(nativeKeyGroups(rowType, keys, rows, maxParallelism)).as("%s", keyTypes).isEqualTo(expected);
        assertThat(Native.liveHandles()).isZero();
    }

    /** The key group of every row, by its number: with a channel per key group, a batch has rows of one key group. */
    private static TreeMap<Long, Integer> nativeKeyGroups(
            RowType rowType, int[] keys, List<RowData> rows, int maxParallelism) {
        final String reads =
                rowType.getFields().stream().map(field -> "{}").collect(Collectors.joining(",", "[", "]"));
        final String spec =
                String.format(
                        "{\"input\":\"%s\",\"entry\":true,\"reads\":%s,\"nodes\":[],\"hosts\":[],\"exchange\":%s,"
                                + "\"output\":\"batches\",\"writes\":%s,\"config\":{}}",
                        rowType.asSerializableString(), reads, Arrays.toString(keys), reads);
        final TreeMap<Long, Integer> keyGroups = new TreeMap<>();
        final long stage = Native.stageOpen(spec, null, maxParallelism, maxParallelism, null);
        try (RowEntry entry =
                new RowEntry(
                        EntryMemory.open(spec, ROWS), rowType, ReadFields.parse(reads, rowType), ROWS)) {
            rows.forEach(entry::write);
            Native.stagePush(stage, 0, entry.finish());
            for (long batch = Native.stagePull(stage); batch != 0; batch = Native.stagePull(stage)) {
                final int keyGroup = Native.batchKeyGroup(batch);
                BatchExit.emit(batch, rowType, row -> keyGroups.put(row.getLong(keys.length), keyGroup));
                Native.batchRelease(batch);
            }
        } finally {
            Native.stageClose(stage);
        }
        return keyGroups;
    }

    private static Object value(LogicalType type, Random random) {
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return random.nextBoolean();
            case TINYINT:
                return (byte) random.nextInt();
            case SMALLINT:
                return (short) random.nextInt();
            case INTEGER:
            case INTERVAL_YEAR_MONTH:
                return edge(random, random.nextInt(), Integer.MIN_VALUE, -1);
            case DATE:
                return random.nextInt(3_000_000) - 700_000;
            case TIME_WITHOUT_TIME_ZONE:
                return random.nextInt(86_400_000);
            case BIGINT:
            case INTERVAL_DAY_TIME:
                return edge(random, random.nextLong(), Long.MIN_VALUE, -1L);
            case FLOAT:
                return edge(random, Float.intBitsToFloat(random.nextInt() & 0xff7fffff), -0.0f, Float.NaN);
            case DOUBLE:
                return edge(random, random.nextGaussian() * 1e9, -0.0, Double.NaN);
            case DECIMAL:
                final DecimalType decimal = (DecimalType) type;
                final BigInteger bound = BigInteger.TEN.pow(decimal.getPrecision());
                final BigInteger unscaled = new BigInteger(1 + random.nextInt(130), random).mod(bound);
                return DecimalData.fromBigDecimal(
                        new BigDecimal(random.nextBoolean() ? unscaled : unscaled.negate(), decimal.getScale()),
                        decimal.getPrecision(),
                        decimal.getScale());
            case CHAR:
                return StringData.fromString(text(random, 3));
            case VARCHAR:
                return StringData.fromString(text(random, random.nextInt(30)));
            case BINARY:
                return bytes(random, 9);
            case VARBINARY:
                return bytes(random, random.nextInt(40));
            case TIMESTAMP_WITHOUT_TIME_ZONE:
                return timestamp(((TimestampType) type).getPrecision(), random);
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return timestamp(((LocalZonedTimestampType) type).getPrecision(), random);
            default:
                throw new IllegalArgumentException(type.toString());
        }
    }

    @SafeVarargs
    private static <T> T edge(Random random, T any, T... edges) {
        return random.nextInt(5) == 0 ? edges[random.nextInt(edges.length)] : any;
    }

    private static String text(Random random, int length) {
        final String[] letters = {"a", "Z", " ", "é", "中", "😀", "\u0000"};
        return IntStream.range(0, length)
                .mapToObj(i -> letters[random.nextInt(letters.length)])
                .collect(Collectors.joining());
    }

    private static byte[] bytes(Random random, int length) {
        final byte[] bytes = new byte[length];
        random.nextBytes(bytes);
        return bytes;
    }

    private static TimestampData timestamp(int precision, Random random) {
        final long millis = random.nextInt(4) == 0 ? -1 - random.nextInt(1000) : random.nextLong(250_000_000_000_000L);
        if (precision <= 3) {
            return TimestampData.fromEpochMillis(precision == 0 ? Math.floorDiv(millis, 1000) * 1000 : millis);
        }
        final int unit = precision == 9 ? 1 : 1000;
        return TimestampData.fromEpochMillis(millis, random.nextInt(1_000_000) / unit * unit);
    }
}
