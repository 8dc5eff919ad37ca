package org.apache.flink.streamfusion.runtime;

import org.apache.flink.streaming.api.functions.async.AsyncFunction;
import org.apache.flink.streaming.api.functions.async.CollectionSupplier;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.table.data.RowData;

import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Deque;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * A lookup of several rows at once. What was found is taken in the order of the rows, and nothing is in flight between two
 * calls.
 */
final class AsyncLookup extends Lookup {

    private final AsyncFunction<RowData, RowData> function;
    private final HostLookup.Async async;

    @SuppressWarnings("unchecked")
    AsyncLookup(HostLookup host) {
        super(host);
        this.function = (AsyncFunction<RowData, RowData>) host.function();
        this.async = host.async();
    }

    @Override
    int lookup(HeapColumn[] columns, int fromRow, int[] matches) throws Exception {
        final Deque<InFlight> inFlight = new ArrayDeque<>();
        int asked = 0;
        int rows = 0;
        while (true) {
            while (asked < matches.length && inFlight.size() < async.capacity() && !hasEnough()) {
                final InFlight row = new InFlight(new ColumnarRow(columns, fromRow + asked++));
                inFlight.add(row);
                function.asyncInvoke(row.input, row);
            }
            if (inFlight.isEmpty()) {
                return rows;
            }
            final Collection<RowData> joined = await(inFlight.remove());
            joined.forEach(this::write);
            matches[rows++] = joined.size();
        }
    }

    private Collection<RowData> await(InFlight row) throws Exception {
        try {
            if (async.timeoutMs() > 0 && !row.result.isDone()) {
                final long left = row.deadline - System.nanoTime();
                try {
                    return row.result.get(Math.max(left, 0), TimeUnit.NANOSECONDS);
                } catch (TimeoutException e) {
                    function.timeout(row.input, row); // completes it, if with a failure
                }
            }
            return row.result.get();
        } catch (ExecutionException e) {
            throw new Exception("Could not complete the stream element: " + row.input + '.', e.getCause());
        }
    }

    /** A row that is looked up; completed by any thread. */
    private final class InFlight implements ResultFuture<RowData> {

        private final RowData input;
        private final long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(async.timeoutMs());
        private final CompletableFuture<Collection<RowData>> result = new CompletableFuture<>();

        InFlight(RowData input) {
            this.input = input;
        }

        @Override
        public void complete(Collection<RowData> joined) {
            result.complete(joined);
        }

        @Override
        public void complete(CollectionSupplier<RowData> supplier) {
            try {
                result.complete(supplier.get());
            } catch (Throwable t) {
                result.completeExceptionally(t);
            }
        }

        @Override
        public void completeExceptionally(Throwable error) {
            result.completeExceptionally(error);
        }
    }
}
