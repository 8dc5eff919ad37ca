package org.apache.flink.streamfusion.tests;

import org.apache.flink.streamfusion.tests.connector.Change;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** What is left in a table after a changelog was applied to it. */
abstract class MaterializedTable {

    /** A table in which each change adds or removes one row, whatever its key. */
    static MaterializedTable ofRetractions() {
        return new Retractions();
    }

    /** A table in which a row replaces the earlier one of the same key. */
    static MaterializedTable ofUpserts() {
        return new Upserts();
    }

    /** Applies one change. */
    abstract void apply(Change change);

    /** The rows left, sorted. */
    abstract List<String> rows();

    /** Applies a whole changelog. */
    MaterializedTable applyAll(List<Change> changelog) {
        changelog.forEach(this::apply);
        return this;
    }

    private static final class Retractions extends MaterializedTable {
        private final Map<String, Integer> counts = new HashMap<>();

        @Override
        void apply(Change change) {
            int step = switch (change.kind()) {
                case INSERT, UPDATE_AFTER -> 1;
                case UPDATE_BEFORE, DELETE -> -1;
            };
            counts.merge(change.row(), step, (old, added) -> old + added == 0 ? null : old + added);
        }

        @Override
        List<String> rows() {
            List<String> rows = new ArrayList<>();
            counts.forEach((row, count) -> {
                // More removals than rows belong to the result: a lost insertion must not look like an empty table.
                String line = count < 0 ? "missing " + row : row;
                rows.addAll(Collections.nCopies(Math.abs(count), line));
            });
            Collections.sort(rows);
            return rows;
        }
    }

    private static final class Upserts extends MaterializedTable {
        private final Map<String, String> rows = new HashMap<>();

        @Override
        void apply(Change change) {
            switch (change.kind()) {
                case INSERT, UPDATE_AFTER -> rows.put(change.key(), change.row());
                case UPDATE_BEFORE, DELETE -> rows.remove(change.key());
            }
        }

        @Override
        List<String> rows() {
            return rows.values().stream().sorted().toList();
        }
    }
}
