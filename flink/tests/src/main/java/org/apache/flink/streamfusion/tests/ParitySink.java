package org.apache.flink.streamfusion.tests;

import org.apache.flink.streamfusion.tests.connector.ParityCollectFactory;

/**
 * A table that a parity test writes.
 *
 * @param name its name in SQL
 * @param columns what stands between the brackets of CREATE TABLE
 * @param kinds the row kinds it accepts, as {@code "+I,-U,+U,-D"}
 */
record ParitySink(String name, String columns, String kinds) {
    static final String ALL_KINDS = "+I,-U,+U,-D";
    static final String UPSERT_KINDS = "+I,+U,-D";

    /** An empty table that the changelog of this sink can be applied to. */
    MaterializedTable table() {
        return kinds.equals(UPSERT_KINDS) ? MaterializedTable.ofUpserts() : MaterializedTable.ofRetractions();
    }

    String createTable(String sinkId) {
        return "CREATE TABLE `%s` (%s) WITH ('connector'='%s', 'sink-id'='%s', 'changelog'='%s')"
                .formatted(name, columns, ParityCollectFactory.IDENTIFIER, sinkId, kinds);
    }
}
