package org.apache.flink.streamfusion.tests.connector;

import org.apache.flink.table.data.ArrayData;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.MapData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.types.logical.ArrayType;
import org.apache.flink.table.types.logical.DistinctType;
import org.apache.flink.table.types.logical.IntType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.MapType;
import org.apache.flink.table.types.logical.MultisetType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.utils.LogicalTypeChecks;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.TreeMap;

/**
 * Internal values as text that is equal exactly when the values are, once Flink has written them.
 *
 * <p>Doubles keep the sign of zero, decimals their scale, timestamps their nanoseconds, strings every code unit. The
 * entries of a map, which have no order in Flink, are sorted.
 *
 * <p>Two values of Flink are more than their type says until they are written: a Java string with half a surrogate pair,
 * of which a question mark is left, and a timestamp of precision 3 with nanoseconds, of which the milliseconds are.
 */
public final class RowText {
    private static final long NANOS_PER_MILLI = 1_000_000L;

    private RowText() {}

    /** All fields of a row, without its kind. */
    public static String ofRow(RowData row, RowType type) {
        List<String> fields = new ArrayList<>();
        for (int i = 0; i < type.getFieldCount(); i++) {
            fields.add(ofField(row, type, i));
        }
        return "(" + String.join(", ", fields) + ")";
    }

    /** One field of a row. */
    public static String ofField(RowData row, RowType type, int index) {
        LogicalType fieldType = type.getTypeAt(index);
        return ofValue(RowData.createFieldGetter(fieldType, index).getFieldOrNull(row), fieldType);
    }

    private static String ofValue(Object value, LogicalType type) {
        if (value == null) {
            return "NULL";
        }
        return switch (type.getTypeRoot()) {
            case ROW -> ofRow((RowData) value, (RowType) type);
            case ARRAY -> ofArray((ArrayData) value, ((ArrayType) type).getElementType()).toString();
            case MAP -> ofMap((MapData) value, ((MapType) type).getKeyType(), ((MapType) type).getValueType());
            case MULTISET -> ofMap(
                    (MapData) value, ((MultisetType) type).getElementType(), new IntType());
            case DISTINCT_TYPE -> ofValue(value, ((DistinctType) type).getSourceType());
            case CHAR, VARCHAR -> quoted(new String(((StringData) value).toBytes(), StandardCharsets.UTF_8));
            case BINARY, VARBINARY -> "x'" + HexFormat.of().formatHex((byte[]) value) + "'";
            case DECIMAL -> ((DecimalData) value).toBigDecimal().toPlainString();
            case TIMESTAMP_WITHOUT_TIME_ZONE, TIMESTAMP_WITH_LOCAL_TIME_ZONE -> ofTimestamp(
                    (TimestampData) value, LogicalTypeChecks.getPrecision(type));
            default -> value.toString();
        };
    }

    private static String ofTimestamp(TimestampData timestamp, int precision) {
        if (TimestampData.isCompact(precision)) {
            return TimestampData.fromEpochMillis(timestamp.getMillisecond()).toString();
        }
        long nanos = timestamp.getNanoOfMillisecond();
        String text = timestamp.toLocalDateTime().toString();
        // A nanosecond part outside its range prints like a neighbour in range.
        return nanos >= 0 && nanos < NANOS_PER_MILLI ? text : text + "[nanos " + nanos + "]";
    }

    private static List<String> ofArray(ArrayData array, LogicalType elementType) {
        ArrayData.ElementGetter getter = ArrayData.createElementGetter(elementType);
        List<String> elements = new ArrayList<>();
        for (int i = 0; i < array.size(); i++) {
            elements.add(ofValue(getter.getElementOrNull(array, i), elementType));
        }
        return elements;
    }

    private static String ofMap(MapData map, LogicalType keyType, LogicalType valueType) {
        List<String> keys = ofArray(map.keyArray(), keyType);
        List<String> values = ofArray(map.valueArray(), valueType);
        TreeMap<String, String> sorted = new TreeMap<>();
        for (int i = 0; i < keys.size(); i++) {
            sorted.put(keys.get(i), values.get(i));
        }
        return sorted.toString();
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("'");
        for (int i = 0; i < text.length(); i++) {
            char unit = text.charAt(i);
            if (unit >= ' ' && unit < 127) {
                out.append(unit);
            } else {
                out.append(String.format("\\u%04x", (int) unit));
            }
        }
        return out.append('\'').toString();
    }
}
