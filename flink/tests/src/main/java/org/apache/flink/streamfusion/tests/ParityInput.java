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
 */
record ParityInput(String name, String columns, String kinds, List<Row> rows) {

    String createTable(String dataId, ParityValuesFactory.RowForm form) {
        return "CREATE TABLE `%s` (%s) WITH ('connector'='%s', 'data-id'='%s', 'changelog'='%s', 'row-form'='%s')"
                .formatted(name, columns, ParityValuesFactory.IDENTIFIER, dataId, kinds, form);
    }
}
