package org.apache.flink.streamfusion.tests;

import org.apache.flink.streamfusion.tests.connector.ParityValuesFactory;
import org.apache.flink.types.Row;

import java.util.List;

/**
 * A table that a parity test reads.
 *
 * @param name its name in SQL
 * @param columns what stands between the brackets of CREATE TABLE
 * @param kinds the row kinds it may contain, as {@code "+I,-U,+U,-D"}
 * @param rows its changelog
 * @param behind the table, created before, all of whose rows the job works off before the first one of this; null for none
 */
record ParityInput(String name, String columns, String kinds, List<Row> rows, String behind) {

    /** A table that waits for no other one. */
    ParityInput(String name, String columns, String kinds, List<Row> rows) {
        this(name, columns, kinds, rows, null);
    }

    /**
     * The same with watermarks so far behind that no row is late. Of several subtasks of a source one has all rows; until the others have ended
     * watermarks wait for them, so which rows would be late depends on when that is.
     */
    ParityInput withoutLateRows() {
        return new ParityInput(
                name,
                columns.replaceAll(
                        "WATERMARK FOR (\\w+) AS \\1( - INTERVAL '[^']*' \\w+)?",
                        "WATERMARK FOR $1 AS $1 - INTERVAL '90' DAY"),
                kinds,
                rows,
                behind);
    }

    String createTable(String dataId, ParityValuesFactory.RowForm form) {
        return "CREATE TABLE `%s` (%s) WITH ('connector'='%s', 'data-id'='%s', 'changelog'='%s', 'row-form'='%s', 'behind'='%s')"
                .formatted(
                        name,
                        columns,
                        ParityValuesFactory.IDENTIFIER,
                        dataId,
                        kinds,
                        form,
                        behind != null);
    }
}
