package org.apache.flink.streamfusion.runtime;

import org.apache.flink.api.common.functions.DefaultOpenContext;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.functions.util.FunctionUtils;
import org.apache.flink.metrics.Counter;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.util.Collector;
import org.apache.flink.util.IOUtils;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;

/**
 * Runs what of a stage stays in the JVM, expressions and lookups, over whole batches.
 *
 * <p>The library calls {@link #call} on the thread that pushed a batch. What a function throws goes through the library to the
 * caller of the push unchanged.
 */
final class HostCalls {

    private static final String LOWER = "abcdefghijklmnopqrstuvwxyz";
    private static final String UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

    private final Callee[] callees;
    private final Deque<Callee> opened = new ArrayDeque<>();
    private final Counter calls;
    private final Counter rows;

    /** Opens the functions, once. Whatever happens, {@link #close()} must be called. */
    HostCalls(StageHost[] hosts, Counter calls, Counter rows) {
        this.callees = Arrays.stream(hosts).map(HostCalls::callee).toArray(Callee[]::new);
        this.calls = calls;
        this.rows = rows;
    }

    void open(RuntimeContext context) throws Exception {
        for (Callee callee : callees) {
            opened.push(callee); // closed also if it opens only halfway
            callee.open(context);
        }
    }

    /** Evaluates an expression for each row of a borrowed batch; the result, one column, is the caller's. */
    long call(int host, long batch) throws Exception {
        final int batchRows = Native.batchRows(batch);
        calls.inc();
        rows.inc(batchRows);
        return ((Host) callees[host]).call(batch, batchRows);
    }

    /**
     * Looks up rows of a borrowed batch from a row on, in order, as many as give enough results but at least one. The answer has the
     * number of batches of what was found, their handles, which are the caller's, and for each row that was looked up how
     * many of their rows are its. A batch has the columns of the input, of which there is nothing, and those of the table.
     */
    long[] lookup(int host, long batch, int fromRow) throws Exception {
        final int batchRows = Native.batchRows(batch);
        final long[] answer = ((Lookup) callees[host]).lookup(batch, batchRows, fromRow);
        calls.inc();
        rows.inc(answer.length - 1 - answer[0]);
        return answer;
    }

    private static Callee callee(StageHost host) {
        return host instanceof HostLookup lookup ? Lookup.of(lookup) : new Host((HostFunction) host);
    }

    /** What is opened with the stage and closed with it. */
    interface Callee {
        void open(RuntimeContext context) throws Exception;

        void close() throws Exception;
    }

    /** Whether the locale maps the letters of ASCII to each other, as {@code String} does by default. */
    boolean changesAsciiCasePlainly() {
        return UPPER.toLowerCase().equals(LOWER) && LOWER.toUpperCase().equals(UPPER);
    }

    /** Closes the functions, the last opened first. */
    void close() throws Exception {
        final List<AutoCloseable> toClose = new ArrayList<>();
        opened.forEach(callee -> toClose.add(callee::close));
        opened.clear();
        IOUtils.closeAll(toClose);
    }

    /** One expression and the buffers of its results. */
    private static final class Host implements Callee {

        private final HostFunction host;
        private final RowType readType;
        private final RowType resultType;
        private FlatMapFunction<RowData, RowData> function;
        private RowEntry results;

        private final Collector<RowData> collector =
                new Collector<>() {
                    @Override
                    public void collect(RowData result) {
                        results.write(result);
                    }

                    @Override
                    public void close() {}
                };

        Host(HostFunction host) {
            this.host = host;
            final LogicalType[] read =
                    Arrays.stream(host.inputs()).mapToObj(host.inputType()::getTypeAt).toArray(LogicalType[]::new);
            this.readType = RowType.of(read);
            this.resultType = RowType.of(host.outputType());
        }

        @Override
        public void open(RuntimeContext context) throws Exception {
            function = host.function().newInstance(context.getUserCodeClassLoader());
            FunctionUtils.setFunctionRuntimeContext(function, context);
            FunctionUtils.openFunction(function, DefaultOpenContext.INSTANCE);
        }

        long call(long batch, int batchRows) throws Exception {
            final HeapColumn[] columns = new HeapColumn[host.inputType().getFieldCount()];
            Arrays.fill(columns, HeapColumn.ABSENT);
            final HeapColumn[] read = BatchExit.columns(BatchExit.export(batch), batchRows, readType);
            for (int i = 0; i < read.length; i++) {
                columns[host.inputs()[i]] = read[i];
            }
            makeRoomFor(batchRows);
            for (int row = 0; row < batchRows; row++) {
                function.flatMap(new ColumnarRow(columns, row), collector);
                if (results.rows() != row + 1) {
                    throw new IllegalStateException(
                            "An expression made " + (results.rows() - row) + " results of one row");
                }
            }
            return results.finish();
        }

        /** The results of a batch are one batch, so there is no other limit to their number. */
        private void makeRoomFor(int rows) {
            if (results != null && results.capacityRows() >= rows) {
                return;
            }
            if (results != null) {
                final RowEntry old = results;
                results = null;
                old.close();
            }
            final int capacity = Math.max(StageConfig.DEFAULT_MAX_BATCH_ROWS, rows);
            results =
                    new RowEntry(
                            EntryMemory.open(host.outputSpec(), capacity),
                            resultType,
                            ReadFields.all(resultType),
                            capacity);
        }

        @Override
        public void close() throws Exception {
            IOUtils.closeAll(results, () -> FunctionUtils.closeFunction(function));
        }
    }
}
