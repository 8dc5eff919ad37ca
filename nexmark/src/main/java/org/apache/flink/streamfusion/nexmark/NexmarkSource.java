package org.apache.flink.streamfusion.nexmark;

import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.table.data.RowData;

import java.util.ArrayList;
import java.util.List;

/**
 * All events of the settings, shared out among the readers.
 *
 * <p>There are as many splits as readers when a job starts first, and they stay; restored at another parallelism, a reader has several
 * or none.
 */
final class NexmarkSource implements Source<RowData, EventSplit, List<EventSplit>> {
    private static final long serialVersionUID = 1L;

    private final NexmarkSettings settings;

    NexmarkSource(NexmarkSettings settings) {
        this.settings = settings;
    }

    @Override
    public Boundedness getBoundedness() {
        return settings.isEndless() ? Boundedness.CONTINUOUS_UNBOUNDED : Boundedness.BOUNDED;
    }

    @Override
    public SourceReader<RowData, EventSplit> createReader(SourceReaderContext context) {
        return new EventReader(settings);
    }

    @Override
    public SplitEnumerator<EventSplit, List<EventSplit>> createEnumerator(SplitEnumeratorContext<EventSplit> context) {
        return new Enumerator(context, EventSplit.all(context.currentParallelism()));
    }

    @Override
    public SplitEnumerator<EventSplit, List<EventSplit>> restoreEnumerator(
            SplitEnumeratorContext<EventSplit> context, List<EventSplit> unassigned) {
        return new Enumerator(context, unassigned);
    }

    @Override
    public SimpleVersionedSerializer<EventSplit> getSplitSerializer() {
        return new EventSplit.Serializer();
    }

    @Override
    public SimpleVersionedSerializer<List<EventSplit>> getEnumeratorCheckpointSerializer() {
        return new EventSplit.ListSerializer();
    }

    private static final class Enumerator implements SplitEnumerator<EventSplit, List<EventSplit>> {
        private final SplitEnumeratorContext<EventSplit> context;
        private final List<EventSplit> unassigned;

        Enumerator(SplitEnumeratorContext<EventSplit> context, List<EventSplit> unassigned) {
            this.context = context;
            this.unassigned = new ArrayList<>(unassigned);
        }

        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int subtask, String host) {}

        @Override
        public void addSplitsBack(List<EventSplit> splits, int subtask) {
            unassigned.addAll(splits);
            context.registeredReaders().keySet().forEach(this::assign);
        }

        @Override
        public void addReader(int subtask) {
            assign(subtask);
            context.signalNoMoreSplits(subtask);
        }

        private void assign(int subtask) {
            unassigned.removeIf(split -> {
                boolean isTheirs = split.first() % context.currentParallelism() == subtask;
                if (isTheirs) {
                    context.assignSplit(split, subtask);
                }
                return isTheirs;
            });
        }

        @Override
        public List<EventSplit> snapshotState(long checkpoint) {
            return List.copyOf(unassigned);
        }

        @Override
        public void close() {}
    }
}
