package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;

/** Makes consistent changelogs out of rows: what is retracted was there before, and exactly as it was. */
public final class Changelogs {
    private static final int DELETE_ONE_IN = 5;
    private static final int UPDATE_ONE_IN = 3;

    private Changelogs() {}

    /**
     * Inserts, updates and deletes with all four row kinds, drawn from the seed. At the end some rows are left.
     *
     * <p>Each row appears as it is; which field is a key does not matter.
     */
    public static List<Row> retracting(List<Row> rows, long seed) {
        Random random = new Random(seed);
        List<Row> present = new ArrayList<>();
        List<Row> changelog = new ArrayList<>();
        for (Row row : rows) {
            if (!present.isEmpty() && random.nextInt(DELETE_ONE_IN) == 0) {
                changelog.add(of(RowKind.DELETE, present.remove(random.nextInt(present.size()))));
            }
            if (!present.isEmpty() && random.nextInt(UPDATE_ONE_IN) == 0) {
                int replaced = random.nextInt(present.size());
                changelog.add(of(RowKind.UPDATE_BEFORE, present.get(replaced)));
                changelog.add(of(RowKind.UPDATE_AFTER, row));
                present.set(replaced, row);
            } else {
                changelog.add(of(RowKind.INSERT, row));
                present.add(row);
            }
        }
        return changelog;
    }

    /** The same with everything deleted in the end, in another order than it came. */
    public static List<Row> emptied(List<Row> rows, long seed) {
        List<Row> changelog = new ArrayList<>();
        rows.forEach(row -> changelog.add(of(RowKind.INSERT, row)));
        List<Row> deletions = new ArrayList<>(rows);
        Collections.shuffle(deletions, new Random(seed));
        deletions.forEach(row -> changelog.add(of(RowKind.DELETE, row)));
        return changelog;
    }

    private static Row of(RowKind kind, Row row) {
        Row copy = Row.copy(row);
        copy.setKind(kind);
        return copy;
    }
}
