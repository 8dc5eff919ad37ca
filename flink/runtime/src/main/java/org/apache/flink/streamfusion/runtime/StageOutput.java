package org.apache.flink.streamfusion.runtime;

import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.streaming.api.operators.Output;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.table.data.RowData;

import java.util.function.Consumer;

/** Where the batches of a stage go: on as batches, or row by row to an operator of Flink. */
final class StageOutput {
    private final StageConfig config;
    private final Output<StreamRecord<Object>> output;
    private final Counter batches;
    private final Counter rows;
    private final StreamRecord<Object> record = new StreamRecord<>(null);
    private final Consumer<RowData> emitRow = this::emit;

    /** Null if batches leave. */
    private final BinaryExit exit;

    /** Null if batches always leave encoded, or not over an exchange. */
    private final LocalEdge.Sender localEdge;

    /** Rows leave as objects of their own if the job reuses objects, else each is valid until the next one leaves. */
    StageOutput(
            StageConfig config,
            Output<StreamRecord<Object>> output,
            LocalEdge.Sender localEdge,
            boolean reusesObjects,
            MetricGroup group) {
        this.config = config;
        this.output = output;
        this.localEdge = localEdge;
        exit = config.outputIsBatches() ? null : new BinaryExit(config.outputType.getFieldCount(), !reusesObjects);
        batches = group.counter("nativeBatchesOut");
        rows = group.counter("nativeRowsOut");
    }

    /** Emits a batch of this stage and gives it back to the library. */
    void emitAndRelease(long stage, long batch) {
        try {
            emit(stage, batch);
        } finally {
            Native.batchRelease(batch);
        }
    }

    private void emit(long stage, long batch) {
        final int count = Native.batchRows(batch);
        batches.inc();
        rows.inc(count);
        if (exit == null) {
            output.collect(record.replace(NativeBatch.ofHandle(batch, count, Native.batchKeyGroup(batch)).over(localEdge)));
            return;
        }
        // Of a batch around this one, whose row other outputs may still have to read: see BinaryExit.
        final Object outer = record.getValue();
        if (!exit.emit(stage, batch, count, emitRow)) {
            BatchExit.emit(batch, config.outputType, emitRow);
        }
        record.replace(outer);
    }

    private void emit(RowData row) {
        output.collect(record.replace(row));
    }
}
