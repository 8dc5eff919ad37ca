package org.apache.flink.streamfusion.tests.connector;

import org.apache.flink.types.RowKind;

/**
 * One row of a changelog.
 *
 * @param kind its row kind
 * @param key the primary key of the sink as text, equal for all rows of a sink without one
 * @param row all fields as text
 */
public record Change(RowKind kind, String key, String row) {
    @Override
    public String toString() {
        return kind.shortString() + row;
    }
}
