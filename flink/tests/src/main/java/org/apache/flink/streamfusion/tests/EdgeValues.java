package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.function.Function;

/**
 * Values at the edges of every supported type, and tables of them.
 *
 * <p>Values are objects of the default external class of their type. The same seed gives the same table.
 */
public final class EdgeValues {
    private static final int LONG_TEXT = 3000;
    private static final int MILLI_PRECISION = 3;
    private static final int NANO_PRECISION = 9;
    private static final int KEYS_OF_A_COLUMN = 1000;

    private EdgeValues() {}

    /**
     * A column.
     *
     * @param name its name
     * @param type its SQL type
     * @param values its edge values, without NULL
     */
    public record Column(String name, String type, List<?> values) {
        /** The column of a CREATE TABLE statement. */
        public String ddl() {
            return "`" + name + "` " + type;
        }
    }

    /** One column of every supported type, and of several precisions where the type has one. */
    public static List<Column> allTypes() {
        List<Column> columns = new ArrayList<>();
        columns.add(new Column("c_boolean", "BOOLEAN", List.of(true, false)));
        columns.addAll(numbers());
        columns.addAll(texts());
        columns.addAll(times());
        return columns;
    }

    /** The numeric columns. */
    public static List<Column> numbers() {
        return List.of(
                new Column("c_tinyint", "TINYINT", integers(Byte.MIN_VALUE, Byte.MAX_VALUE, Long::byteValue)),
                new Column("c_smallint", "SMALLINT", integers(Short.MIN_VALUE, Short.MAX_VALUE, Long::shortValue)),
                new Column("c_int", "INT", integers(Integer.MIN_VALUE, Integer.MAX_VALUE, Long::intValue)),
                new Column("c_bigint", "BIGINT", integers(Long.MIN_VALUE, Long.MAX_VALUE, Function.identity())),
                new Column("c_float", "FLOAT", floats()),
                new Column("c_double", "DOUBLE", doubles()),
                new Column("c_decimal_5_2", "DECIMAL(5, 2)", decimals(5, 2)),
                new Column("c_decimal_18_0", "DECIMAL(18, 0)", decimals(18, 0)),
                new Column("c_decimal_19_9", "DECIMAL(19, 9)", decimals(19, 9)),
                new Column("c_decimal_38_0", "DECIMAL(38, 0)", decimals(38, 0)),
                new Column("c_decimal_38_38", "DECIMAL(38, 38)", decimals(38, 38)));
    }

    /** The columns of text and bytes. */
    public static List<Column> texts() {
        return List.of(
                new Column("c_char", "CHAR(3)", List.of("abc", "   ", "\u00e9\u00e8\u00ea", "a\ud83d\ude00b")),
                new Column("c_varchar", "VARCHAR(8)", List.of("", "a", "1234567", "12345678", "\u20ac\u20ac\u20ac")),
                new Column("c_string", "STRING", strings()),
                new Column("c_binary", "BINARY(2)", List.of(new byte[] {0, 0}, new byte[] {-1, -1})),
                new Column(
                        "c_varbinary",
                        "VARBINARY(9)",
                        List.of(new byte[0], new byte[] {-128, 127}, new byte[] {1, 2, 3, 4, 5, 6, 7, 8, 9})),
                new Column("c_bytes", "BYTES", List.of(new byte[0], new byte[] {0}, new byte[LONG_TEXT])));
    }

    /** The columns of dates, times, and timestamps. Flink's DDL knows no columns of intervals. */
    public static List<Column> times() {
        List<Column> columns = new ArrayList<>();
        columns.add(new Column(
                "c_date",
                "DATE",
                List.of(
                        LocalDate.of(1, 1, 1),
                        LocalDate.of(9999, 12, 31),
                        LocalDate.EPOCH,
                        LocalDate.of(1969, 12, 31),
                        LocalDate.of(2000, 2, 29),
                        LocalDate.of(1582, 10, 10))));
        columns.add(new Column(
                "c_time",
                "TIME(0)",
                List.of(LocalTime.MIDNIGHT, LocalTime.of(23, 59, 59), LocalTime.NOON, LocalTime.of(0, 0, 1))));
        for (int precision : new int[] {0, MILLI_PRECISION, 6, NANO_PRECISION}) {
            columns.add(new Column("c_timestamp_" + precision, "TIMESTAMP(" + precision + ")", timestamps(precision)));
            columns.add(new Column(
                    "c_timestamp_ltz_" + precision,
                    "TIMESTAMP_LTZ(" + precision + ")",
                    timestamps(precision).stream().map(EdgeValues::inUtc).toList()));
        }
        return columns;
    }

    /**
     * Rows of the columns: each edge value and NULL at least once, the rest drawn from them.
     *
     * @param rows at least so many rows
     */
    public static List<Row> rows(List<Column> columns, int rows, long seed) {
        Random random = new Random(seed);
        int longest = columns.stream().mapToInt(column -> column.values().size()).max().orElse(0);
        List<Row> table = new ArrayList<>();
        for (int r = 0; r < Math.max(rows, longest + 1); r++) {
            Row row = new Row(columns.size());
            for (int c = 0; c < columns.size(); c++) {
                List<?> values = columns.get(c).values();
                int choice = r <= longest ? r : random.nextInt(values.size() + 1);
                row.setField(c, choice < values.size() ? values.get(choice) : null);
            }
            table.add(row);
        }
        return table;
    }

    /** The rows with their position from 1 on as a first column more, of type INT. */
    public static List<Row> numbered(List<Row> rows) {
        List<Row> numbered = new ArrayList<>();
        for (Row row : rows) {
            numbered.add(Row.join(Row.ofKind(row.getKind(), numbered.size() + 1), row));
        }
        return numbered;
    }

    /**
     * One table, hence one job, for rows of several types that have nothing to do with each other: behind the first fields of a row and the
     * name of its column, each column has a field, and all but its own are NULL. The first field is a key, and no two types have one in common.
     *
     * @param rows the rows of a column: an INT that is neither negative nor above 999, further fields, last the value
     */
    public static List<Row> apart(List<Column> columns, Function<Column, List<Row>> rows) {
        List<Row> table = new ArrayList<>();
        for (int c = 0; c < columns.size(); c++) {
            for (Row row : rows.apply(columns.get(c))) {
                int first = row.getArity() - 1;
                Row wide = new Row(row.getKind(), first + 1 + columns.size());
                for (int field = 1; field < first; field++) {
                    wide.setField(field, row.getField(field));
                }
                int key = (int) row.getField(0);
                if (key < 0 || key >= KEYS_OF_A_COLUMN) {
                    throw new IllegalArgumentException("The key " + key + " may be one of another column");
                }
                wide.setField(0, c * KEYS_OF_A_COLUMN + key);
                wide.setField(first, columns.get(c).name());
                wide.setField(first + 1 + c, row.getField(first));
                table.add(wide);
            }
        }
        return table;
    }

    /** The columns that {@link #apart} puts behind the first ones, as between the brackets of CREATE TABLE. */
    public static String apartDdl(List<Column> columns) {
        return "of_type STRING, " + ddl(columns);
    }

    /** The columns in a SELECT, from the table of this alias. */
    public static String names(List<Column> columns, String table) {
        return String.join(", ", columns.stream().map(column -> table + "." + column.name()).toList());
    }

    /** The columns as between the brackets of CREATE TABLE. */
    public static String ddl(List<Column> columns) {
        return String.join(", ", columns.stream().map(Column::ddl).toList());
    }

    private static <T> List<T> integers(long min, long max, Function<Long, T> as) {
        return Arrays.asList(0L, 1L, -1L, 10L, min, max, min + 1, max / 10).stream().map(as).toList();
    }

    private static List<Float> floats() {
        return List.of(
                0f, -0f, 1f, -1.5f, 0.1f, Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY, Float.MAX_VALUE,
                -Float.MAX_VALUE, Float.MIN_VALUE, 16777217f, 1e10f, 3.4e-5f);
    }

    private static List<Double> doubles() {
        return List.of(
                0d, -0d, 1d, -1.5d, 0.1d, Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY,
                Double.MAX_VALUE, -Double.MAX_VALUE, Double.MIN_VALUE, 9007199254740993d, 1e7, 1e-3, 2.5d, -2.5d, 1e19);
    }

    private static List<BigDecimal> decimals(int precision, int scale) {
        BigInteger largest = BigInteger.TEN.pow(precision).subtract(BigInteger.ONE);
        return List.of(
                new BigDecimal(BigInteger.ZERO, scale),
                new BigDecimal(largest, scale),
                new BigDecimal(largest.negate(), scale),
                new BigDecimal(BigInteger.ONE, scale),
                new BigDecimal(BigInteger.ONE.negate(), scale),
                new BigDecimal(BigInteger.valueOf(12345), scale),
                new BigDecimal(BigInteger.valueOf(50), scale));
    }

    private static List<String> strings() {
        return List.of(
                "",
                " ",
                "a",
                "7 bytes",
                "8 bytes.",
                "  both ends ",
                "\u00fcber Stra\u00dfe",
                "\ud83d\ude00\ud83d\ude80",
                "a\ud83d\ude00b",
                "\u0130\u0131",
                "\uffff",
                "x".repeat(LONG_TEXT),
                "tab\tline\nzero\u0000",
                "12",
                "-12.50",
                "1e3",
                "true",
                "2020-02-29",
                "2020-02-29 12:34:56.789",
                "100%_a\\b",
                "a,b,,c");
    }

    private static List<LocalDateTime> timestamps(int precision) {
        List<LocalDateTime> full = List.of(
                LocalDateTime.of(1970, 1, 1, 0, 0),
                LocalDateTime.of(1, 1, 1, 0, 0),
                LocalDateTime.of(9999, 12, 31, 23, 59, 59, 999_999_999),
                LocalDateTime.of(1969, 12, 31, 23, 59, 59, 999_999_999),
                LocalDateTime.of(1969, 12, 31, 23, 59, 59, 1),
                LocalDateTime.of(2020, 2, 29, 12, 34, 56, 123_456_789),
                LocalDateTime.of(2262, 4, 12, 0, 0, 0, 1_000_000),
                LocalDateTime.of(1582, 10, 10, 10, 10, 10, 10_000));
        int unit = BigInteger.TEN.pow(NANO_PRECISION - precision).intValueExact();
        return full.stream()
                .map(timestamp -> timestamp.withNano(timestamp.getNano() / unit * unit))
                .toList();
    }

    private static Instant inUtc(LocalDateTime timestamp) {
        return timestamp.toInstant(ZoneOffset.UTC);
    }
}
