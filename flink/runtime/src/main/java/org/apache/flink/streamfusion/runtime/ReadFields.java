package org.apache.flink.streamfusion.runtime;

import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.LogicalTypeRoot;
import org.apache.flink.table.types.logical.RowType;

import java.util.ArrayList;
import java.util.List;

/**
 * The fields of a row type that a stage reads: one element per field, null for one that is not read. A field of type ROW
 * has the fields that are read of it; every other field has none.
 *
 * @param children one element per field of the ROW, or null for a field of another type
 */
record ReadFields(List<ReadFields> children) {

    /** From the {@code entry} array of a plan. Fails if the array does not fit the type. */
    static ReadFields parse(String entry, RowType type) {
        final JsonNode json;
        try {
            json = new ObjectMapper().readTree(entry);
        } catch (JsonProcessingException e) {
            throw new IllegalArgumentException("The list of fields to read is not JSON: " + entry, e);
        }
        return parseRow(json, type);
    }

    private static ReadFields parseRow(JsonNode fields, RowType type) {
        if (fields == null || !fields.isArray() || fields.size() != type.getFieldCount()) {
            throw new IllegalArgumentException("The fields to read " + fields + " do not fit the type " + type);
        }
        final List<ReadFields> children = new ArrayList<>();
        for (int i = 0; i < fields.size(); i++) {
            children.add(fields.get(i).isNull() ? null : parseField(fields.get(i), type.getTypeAt(i)));
        }
        return new ReadFields(children);
    }

    private static ReadFields parseField(JsonNode field, LogicalType type) {
        return type.is(LogicalTypeRoot.ROW)
                ? parseRow(field.get("children"), (RowType) type)
                : new ReadFields(null);
    }

    /** Every field, and every field of those. */
    static ReadFields all(RowType type) {
        final List<ReadFields> children = new ArrayList<>();
        for (LogicalType field : type.getChildren()) {
            children.add(field.is(LogicalTypeRoot.ROW) ? all((RowType) field) : new ReadFields(null));
        }
        return new ReadFields(children);
    }
}
