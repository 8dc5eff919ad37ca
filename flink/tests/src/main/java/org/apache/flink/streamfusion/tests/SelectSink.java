package org.apache.flink.streamfusion.tests;

import org.apache.flink.table.api.Table;
import org.apache.flink.table.catalog.Column;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.utils.LogicalTypeUtils;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/** The table that takes the rows of a SELECT. */
final class SelectSink {
    static final String NAME = "select_result";

    private SelectSink() {}

    /** A table of the columns of the query that accepts every row kind. */
    static ParitySink of(Table query) {
        return of(query, Set.of());
    }

    /** A table of the columns of the query; with a primary key, unless {@code keys} is empty, it takes no {@code -U}. */
    static ParitySink of(Table query, Set<String> keys) {
        List<String> columns = new ArrayList<>();
        for (Column column : query.getResolvedSchema().getColumns()) {
            LogicalType type = LogicalTypeUtils.removeTimeAttributes(column.getDataType().getLogicalType());
            boolean nullable = type.isNullable() && !keys.contains(column.getName());
            columns.add("`" + column.getName() + "` " + type.copy(nullable).asSerializableString());
        }
        if (!keys.isEmpty()) {
            columns.add("PRIMARY KEY (`" + String.join("`, `", keys) + "`) NOT ENFORCED");
        }
        String kinds = keys.isEmpty() ? ParitySink.ALL_KINDS : ParitySink.UPSERT_KINDS;
        return new ParitySink(NAME, String.join(", ", columns), kinds);
    }
}
