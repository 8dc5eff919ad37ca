package org.apache.flink.streamfusion.runtime;

/** Grows the data buffers of an entry and counts the bytes that its rows put into them. */
final class VariableData {

    private static final long MIN_RESERVATION_BYTES = 64 << 10;

    private final EntryMemory memory;
    private long bytes;

    VariableData(EntryMemory memory) {
        this.memory = memory;
    }

    /** The bytes of all columns since the last reset. */
    long bytes() {
        return bytes;
    }

    void add(int bytes) {
        this.bytes += bytes;
    }

    void reset() {
        bytes = 0;
    }

    /** How much to reserve for a column of {@code bytes}. Offsets are ints, which bounds a column. */
    long roomFor(long bytes) {
        if (bytes > Integer.MAX_VALUE) {
            throw new IllegalStateException(
                    "The values of one column are more than 2 GiB in one batch; a lower streamfusion.batch.max-rows helps");
        }
        return Math.max(Long.highestOneBit(bytes) << 1, MIN_RESERVATION_BYTES);
    }

    long reserve(int column, long bytes) {
        return memory.reserve(column, bytes);
    }
}
