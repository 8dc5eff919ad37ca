package org.apache.flink.streamfusion.nexmark;

import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.table.data.RowData;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Emits the events of its splits, of all splits in the order of their numbers, so that none is late because of another split. */
final class EventReader implements SourceReader<RowData, EventSplit> {
    /** Events handed out before the task looks at its mailbox again. */
    private static final int EVENTS_PER_POLL = 64;

    private final NexmarkSettings settings;
    private final List<Cursor> cursors = new ArrayList<>();
    private CompletableFuture<Void> available = new CompletableFuture<>();
    private boolean noMoreSplits;
    private boolean lingering;

    EventReader(NexmarkSettings settings) {
        this.settings = settings;
    }

    /** The rows of a split, in order. */
    interface Rows {
        /** The row of an event, valid until the next call. Each call asks for the split's next event. */
        RowData next(long event);
    }

    private static final class Cursor {
        private final EventSplit split;
        private final Rows rows;
        private long next;

        Cursor(EventSplit split, Rows rows) {
            this.split = split;
            this.rows = rows;
            this.next = split.next();
        }
    }

    @Override
    public void start() {}

    @Override
    public InputStatus pollNext(ReaderOutput<RowData> output) {
        if (!noMoreSplits) {
            return InputStatus.NOTHING_AVAILABLE;
        }
        Cursor first = first();
        if (first == null || first.next >= settings.events()) {
            return atEnd();
        }
        long end = Math.min(settings.events(), nextOfOthers(first));
        int stride = first.split.stride();
        for (int i = 0; i < EVENTS_PER_POLL && first.next < end; i++) {
            output.collect(first.rows.next(first.next));
            first.next += stride;
        }
        return InputStatus.MORE_AVAILABLE;
    }

    private InputStatus atEnd() {
        if (settings.lingerMillis() == 0 || lingering && available.isDone()) {
            return InputStatus.END_OF_INPUT;
        }
        if (!lingering) {
            lingering = true;
            available = new CompletableFuture<Void>()
                    .completeOnTimeout(null, settings.lingerMillis(), TimeUnit.MILLISECONDS);
        }
        return InputStatus.NOTHING_AVAILABLE;
    }

    private Cursor first() {
        Cursor first = null;
        for (Cursor cursor : cursors) {
            if (first == null || cursor.next < first.next) {
                first = cursor;
            }
        }
        return first;
    }

    private long nextOfOthers(Cursor first) {
        long next = Long.MAX_VALUE;
        for (Cursor cursor : cursors) {
            if (cursor != first) {
                next = Math.min(next, cursor.next);
            }
        }
        return next;
    }

    @Override
    public List<EventSplit> snapshotState(long checkpoint) {
        return cursors.stream()
                .map(cursor -> new EventSplit(cursor.split.first(), cursor.split.stride(), cursor.next))
                .toList();
    }

    @Override
    public CompletableFuture<Void> isAvailable() {
        return available;
    }

    @Override
    public void addSplits(List<EventSplit> splits) {
        for (EventSplit split : splits) {
            cursors.add(new Cursor(split, rows(split)));
        }
    }

    private Rows rows(EventSplit split) {
        if (settings.mode() == NexmarkSettings.Mode.REPLAY) {
            return PreparedEvents.of(settings, split.first(), split.stride()).from(split.next());
        }
        return new EventGenerator(settings)::event;
    }

    @Override
    public void notifyNoMoreSplits() {
        noMoreSplits = true;
        available.complete(null);
    }

    @Override
    public void close() {}
}
