package org.apache.flink.streamfusion.tests.connector;

import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.table.data.RowData;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * Emits a {@link RowFeed} in order, in one subtask, with as little work per row as Flink allows.
 *
 * <p>It has one split, whose state is the position of the next row, so a job that reads it can be restored at any row.
 */
final class RowsSource implements Source<RowData, RowsSource.Position, Boolean> {
    private static final long serialVersionUID = 1L;

    /** Rows handed out before the task looks at its mailbox again. */
    private static final int ROWS_PER_POLL = 64;

    private final RowFeed feed;

    RowsSource(RowFeed feed) {
        this.feed = feed;
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.BOUNDED;
    }

    @Override
    public SourceReader<RowData, Position> createReader(SourceReaderContext context) {
        return new Reader(feed);
    }

    @Override
    public SplitEnumerator<Position, Boolean> createEnumerator(SplitEnumeratorContext<Position> context) {
        return new Enumerator(context, new Position(0));
    }

    @Override
    public SplitEnumerator<Position, Boolean> restoreEnumerator(
            SplitEnumeratorContext<Position> context, Boolean assigned) {
        return new Enumerator(context, assigned ? null : new Position(0));
    }

    @Override
    public SimpleVersionedSerializer<Position> getSplitSerializer() {
        return new PositionSerializer();
    }

    @Override
    public SimpleVersionedSerializer<Boolean> getEnumeratorCheckpointSerializer() {
        return new FlagSerializer();
    }

    /** The rows from a position on. */
    record Position(long next) implements SourceSplit {
        @Override
        public String splitId() {
            return "rows";
        }
    }

    private static final class Enumerator implements SplitEnumerator<Position, Boolean> {
        private final SplitEnumeratorContext<Position> context;
        private Position unassigned;

        Enumerator(SplitEnumeratorContext<Position> context, Position unassigned) {
            this.context = context;
            this.unassigned = unassigned;
        }

        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int subtask, String host) {}

        @Override
        public void addSplitsBack(List<Position> splits, int subtask) {
            if (!splits.isEmpty()) {
                unassigned = splits.get(0);
                if (context.registeredReaders().containsKey(subtask)) {
                    addReader(subtask);
                }
            }
        }

        @Override
        public void addReader(int subtask) {
            if (unassigned != null) {
                context.assignSplit(unassigned, subtask);
                unassigned = null;
            }
            context.signalNoMoreSplits(subtask);
        }

        @Override
        public Boolean snapshotState(long checkpoint) {
            return unassigned == null;
        }

        @Override
        public void close() {}
    }

    private static final class Reader implements SourceReader<RowData, Position> {
        private final RowFeed feed;
        private final CompletableFuture<Void> available = new CompletableFuture<>();
        private long next;
        private long end;
        private boolean hasSplit;

        Reader(RowFeed feed) {
            this.feed = feed;
        }

        @Override
        public void start() {}

        @Override
        public InputStatus pollNext(ReaderOutput<RowData> output) {
            // A row may fail the task, and the coordinator's next event to a failed task would fail the job in its own words.
            if (!available.isDone()) {
                return InputStatus.NOTHING_AVAILABLE;
            }
            if (next == end) {
                if (hasSplit) {
                    feed.ended();
                }
                return InputStatus.END_OF_INPUT;
            }
            long stop = Math.min(end, next + ROWS_PER_POLL);
            for (long position = next; position < stop; position++) {
                output.collect(feed.rowAt(position));
            }
            next = stop;
            return InputStatus.MORE_AVAILABLE;
        }

        @Override
        public List<Position> snapshotState(long checkpoint) {
            return hasSplit ? List.of(new Position(next)) : List.of();
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            return available;
        }

        @Override
        public void addSplits(List<Position> splits) {
            try {
                feed.open();
            } catch (Exception e) {
                throw new IllegalStateException("The rows of the source cannot be prepared", e);
            }
            hasSplit = true;
            next = splits.get(0).next();
            end = feed.size();
        }

        @Override
        public void notifyNoMoreSplits() {
            feed.start().thenAccept(available::complete);
        }

        @Override
        public void close() {}
    }

    private static final class PositionSerializer implements SimpleVersionedSerializer<Position> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Position position) {
            return ByteBuffer.allocate(Long.BYTES).putLong(position.next()).array();
        }

        @Override
        public Position deserialize(int version, byte[] bytes) {
            return new Position(ByteBuffer.wrap(bytes).getLong());
        }
    }

    private static final class FlagSerializer implements SimpleVersionedSerializer<Boolean> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Boolean flag) {
            return new byte[] {(byte) (flag ? 1 : 0)};
        }

        @Override
        public Boolean deserialize(int version, byte[] bytes) {
            return bytes[0] == 1;
        }
    }
}
