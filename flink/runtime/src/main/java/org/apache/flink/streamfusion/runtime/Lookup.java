package org.apache.flink.streamfusion.runtime;

import org.apache.flink.api.common.functions.DefaultOpenContext;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.functions.util.FunctionUtils;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.util.IOUtils;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The lookup of a lookup join over whole batches.
 *
 * <p>A row is looked up completely or not at all, and enough is found when a batch of results is full.
 */
abstract class Lookup implements HostCalls.Callee {

    private final HostLookup host;
    private final RowType readType;
    private RowEntry found;

    /** Batches of results that are full. */
    private final List<Long> full = new ArrayList<>();

    Lookup(HostLookup host) {
        this.host = host;
        this.readType =
                RowType.of(
                        Arrays.stream(host.inputs())
                                .mapToObj(host.inputType()::getTypeAt)
                                .toArray(LogicalType[]::new));
    }

    static Lookup of(HostLookup host) {
        return host.async() == null ? new SyncLookup(host) : new AsyncLookup(host);
    }

    @Override
    public void open(RuntimeContext context) throws Exception {
        FunctionUtils.setFunctionRuntimeContext(host.function(), context);
        FunctionUtils.openFunction(host.function(), DefaultOpenContext.INSTANCE);
        final int capacity = StageConfig.DEFAULT_MAX_BATCH_ROWS;
        found =
                new RowEntry(
                        EntryMemory.open(host.resultSpec(), capacity),
                        host.resultType(),
                        ReadFields.parse(host.reads(), host.resultType()),
                        capacity);
    }

    /** See {@link HostCalls#lookup}. */
    final long[] lookup(long batch, int batchRows, int fromRow) throws Exception {
        final HeapColumn[] columns = new HeapColumn[host.inputType().getFieldCount()];
        Arrays.fill(columns, HeapColumn.ABSENT);
        final HeapColumn[] read = BatchExit.columns(BatchExit.export(batch), batchRows, readType);
        for (int i = 0; i < read.length; i++) {
            columns[host.inputs()[i]] = read[i].detached();
        }
        final int[] matches = new int[batchRows - fromRow];
        try {
            final int rows = lookup(columns, fromRow, matches);
            if (found.rows() > 0) {
                full.add(found.finish());
            }
            final long[] answer = new long[1 + full.size() + rows];
            answer[0] = full.size();
            for (int i = 0; i < full.size(); i++) {
                answer[1 + i] = full.get(i);
            }
            for (int i = 0; i < rows; i++) {
                answer[1 + full.size() + i] = matches[i];
            }
            full.clear(); // the caller's from here on
            return answer;
        } finally {
            full.forEach(Native::batchRelease);
            full.clear();
        }
    }

    /**
     * Looks up rows from {@code fromRow} on, until {@link #hasEnough()}; fills in how many rows were found for each, and returns
     * how many were looked up.
     */
    abstract int lookup(HeapColumn[] columns, int fromRow, int[] matches) throws Exception;

    /** Takes a joined row. */
    final void write(RowData joined) {
        found.write(joined);
        if (found.isFull()) {
            full.add(found.finish());
        }
    }

    final boolean hasEnough() {
        return !full.isEmpty();
    }

    @Override
    public final void close() throws Exception {
        IOUtils.closeAll(found, () -> FunctionUtils.closeFunction(host.function()));
    }
}
