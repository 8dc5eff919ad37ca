package org.apache.flink.streamfusion.runtime;

import org.apache.flink.table.data.RowData;

/** One input of a running stage: what it writes rows into, and what waits behind rows of it that have not arrived completely. */
final class StageInput {

    /** By which the library knows it. */
    final int number;

    final StageConfig.Input config;

    /** Events that must not overtake fragments of this input; the other input does not wait for them. */
    final HeldEvents held = new HeldEvents();

    /** Null until it is opened, and if the input is batches. */
    private RowEntry entry;

    StageInput(int number, StageConfig.Input config) {
        this.number = number;
        this.config = config;
    }

    void open(RowEntry entry) {
        this.entry = entry;
    }

    boolean isBatches() {
        return entry == null;
    }

    /** Rows that were written and not pushed. */
    int rows() {
        return entry == null ? 0 : entry.rows();
    }

    /** Whether the batch must end before this row. */
    boolean mustFinishBefore(RowData row) {
        return !entry.takes(row);
    }

    /** Appends a row. Returns whether the batch must end before the next one. */
    boolean write(RowData row) {
        entry.write(row);
        return entry.isFull();
    }

    /** Moves the rows out as a batch that the caller owns. */
    long finish() {
        return entry.finish();
    }
}
