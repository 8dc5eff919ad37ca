package org.apache.flink.streamfusion.runtime;

/** The buffers behind a {@link RowEntry}, as the boundary describes them. In a test they need not be Rust's. */
interface EntryMemory extends AutoCloseable {

    /** Columns of the column tree. */
    int columns();

    /** Fills in three addresses per column and the address of the row kinds. */
    void addresses(long[] addresses);

    /** Makes the data buffer of a column at least {@code bytes} large and keeps its contents; returns its address. */
    long reserve(int column, long bytes);

    /** Moves the rows out as a batch that the caller owns; fills in the addresses for the next rows. */
    long finish(int rows, boolean hasKinds, long[] addresses);

    /** Makes the buffer of binary rows at least {@code bytes} large and keeps its contents; returns its address. */
    long reserveBinaryRows(long bytes);

    /** Reads the binary rows into a batch that the caller owns. Their buffer stays where it is. */
    long finishBinaryRows(int rows);

    @Override
    void close();

    /** Buffers that Rust owns, for the first or only input of {@code spec}. */
    static EntryMemory open(String spec, int capacityRows) {
        return open(spec, 0, capacityRows);
    }

    /** Buffers that Rust owns, for the input of this number. */
    static EntryMemory open(String spec, int input, int capacityRows) {
        return new NativeMemory(Native.entryOpen(spec, input, capacityRows));
    }

    /** See {@link #open}. */
    final class NativeMemory implements EntryMemory {

        private final long entry;

        private NativeMemory(long entry) {
            this.entry = entry;
        }

        @Override
        public int columns() {
            return Native.entryColumns(entry);
        }

        @Override
        public void addresses(long[] addresses) {
            Native.entryAddresses(entry, addresses);
        }

        @Override
        public long reserve(int column, long bytes) {
            return Native.entryReserve(entry, column, bytes);
        }

        @Override
        public long finish(int rows, boolean hasKinds, long[] addresses) {
            return Native.entryFinish(entry, rows, hasKinds, addresses);
        }

        @Override
        public long reserveBinaryRows(long bytes) {
            return Native.entryReserveBinaryRows(entry, bytes);
        }

        @Override
        public long finishBinaryRows(int rows) {
            return Native.entryFinishBinaryRows(entry, rows);
        }

        @Override
        public void close() {
            Native.entryClose(entry);
        }
    }
}
