package org.apache.flink.streamfusion.tests.connector;

import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.types.RowKind;

/** Changelog modes as text: {@code "+I"}, {@code "+I,+U,-D"}, {@code "+I,-U,+U,-D"}. */
final class RowKinds {
    private RowKinds() {}

    static ChangelogMode parse(String kinds) {
        ChangelogMode.Builder mode = ChangelogMode.newBuilder();
        for (String kind : kinds.split(",")) {
            mode.addContainedKind(ofShortString(kind.trim()));
        }
        return mode.build();
    }

    private static RowKind ofShortString(String text) {
        for (RowKind kind : RowKind.values()) {
            if (kind.shortString().equals(text)) {
                return kind;
            }
        }
        throw new IllegalArgumentException("Not a row kind: " + text);
    }
}
