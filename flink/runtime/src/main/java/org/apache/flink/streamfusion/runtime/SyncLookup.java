package org.apache.flink.streamfusion.runtime;

import org.apache.flink.streaming.api.TimerService;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.table.data.RowData;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/** A lookup that waits for each row. */
final class SyncLookup extends Lookup {

    private final ProcessFunction<RowData, RowData> function;
    private final ProcessFunction<RowData, RowData>.Context context;

    /** Rows that were found for the row that is looked up. */
    private int collected;

    private final Collector<RowData> collector =
            new Collector<>() {
                @Override
                public void collect(RowData joined) {
                    write(joined);
                    collected++;
                }

                @Override
                public void close() {}
            };

    @SuppressWarnings("unchecked")
    SyncLookup(HostLookup host) {
        super(host);
        this.function = (ProcessFunction<RowData, RowData>) host.function();
        this.context = nothing(function);
    }

    @Override
    int lookup(HeapColumn[] columns, int fromRow, int[] matches) throws Exception {
        int rows = 0;
        while (rows < matches.length && !hasEnough()) {
            collected = 0;
            function.processElement(new ColumnarRow(columns, fromRow + rows), context, collector);
            matches[rows++] = collected;
        }
        return rows;
    }

    /** Planning keeps what asks for the time of its operator out of a stage. */
    private static ProcessFunction<RowData, RowData>.Context nothing(ProcessFunction<RowData, RowData> function) {
        return function.new Context() {
            @Override
            public Long timestamp() {
                throw new UnsupportedOperationException("Rows of a batch have no timestamps");
            }

            @Override
            public TimerService timerService() {
                throw new UnsupportedOperationException("A lookup has no timers");
            }

            @Override
            public <X> void output(OutputTag<X> outputTag, X value) {
                throw new UnsupportedOperationException("A lookup has one output");
            }
        };
    }
}
