package org.apache.flink.streamfusion.tests;

import org.apache.flink.streamfusion.tests.connector.Change;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** What is left in a table after a whole changelog was applied to it. */
final class MaterializedTable {
    private MaterializedTable() {}

    /**
     * The rows left, sorted.
     *
     * @param upsert whether a row replaces the earlier one of the same key; otherwise each change adds or removes one
     *     row, whatever its key
     */
    static List<String> of(Collection<Change> changelog, boolean upsert) {
        return upsert ? ofUpserts(changelog) : ofRetractions(changelog);
    }

    private static List<String> ofUpserts(Collection<Change> changelog) {
        Map<String, String> rows = new HashMap<>();
        for (Change change : changelog) {
            switch (change.kind()) {
                case INSERT, UPDATE_AFTER -> rows.put(change.key(), change.row());
                case UPDATE_BEFORE, DELETE -> rows.remove(change.key());
            }
        }
        return sorted(rows.values());
    }

    private static List<String> ofRetractions(Collection<Change> changelog) {
        Map<String, Integer> counts = new HashMap<>();
        for (Change change : changelog) {
            switch (change.kind()) {
                case INSERT, UPDATE_AFTER -> counts.merge(change.row(), 1, Integer::sum);
                case UPDATE_BEFORE, DELETE -> counts.merge(change.row(), -1, Integer::sum);
            }
        }
        List<String> rows = new ArrayList<>();
        counts.forEach((row, count) -> {
            // More removals than rows are part of the result too: a lost insertion must not look like an empty table.
            String line = count < 0 ? "missing " + row : row;
            rows.addAll(Collections.nCopies(Math.abs(count), line));
        });
        return sorted(rows);
    }

    private static List<String> sorted(Collection<String> rows) {
        return rows.stream().sorted().toList();
    }
}
