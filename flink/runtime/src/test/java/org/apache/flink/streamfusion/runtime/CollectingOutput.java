package org.apache.flink.streamfusion.runtime;

import org.apache.flink.runtime.event.WatermarkEvent;
import org.apache.flink.streaming.api.operators.Output;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.LatencyMarker;
import org.apache.flink.streaming.runtime.streamrecord.RecordAttributes;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.binary.BinaryRowData;
import org.apache.flink.util.OutputTag;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/** Keeps rows and events in order; hands batches to a consumer that borrows them. */
final class CollectingOutput implements Output<StreamRecord<Object>> {

    private final Consumer<NativeBatch> batches;
    final List<Object> events = new ArrayList<>();

    CollectingOutput(Consumer<NativeBatch> batches) {
        this.batches = batches;
    }

    List<RowData> rows() {
        return events.stream().filter(RowData.class::isInstance).map(RowData.class::cast).toList();
    }

    @Override
    public void collect(StreamRecord<Object> record) {
        if (record.getValue() instanceof NativeBatch) {
            batches.accept((NativeBatch) record.getValue());
        } else {
            // as Flink copies it for the operator behind
            events.add(record.getValue() instanceof BinaryRowData ? ((BinaryRowData) record.getValue()).copy() : record.getValue());
        }
    }

    @Override
    public <X> void collect(OutputTag<X> outputTag, StreamRecord<X> record) {
        throw new UnsupportedOperationException();
    }

    @Override
    public void emitWatermark(Watermark mark) {
        events.add(mark);
    }

    @Override
    public void emitWatermark(WatermarkEvent watermark) {
        events.add(watermark);
    }

    @Override
    public void emitWatermarkStatus(WatermarkStatus watermarkStatus) {
        events.add(watermarkStatus);
    }

    @Override
    public void emitLatencyMarker(LatencyMarker latencyMarker) {
        events.add(latencyMarker);
    }

    @Override
    public void emitRecordAttributes(RecordAttributes recordAttributes) {
        events.add(recordAttributes);
    }

    @Override
    public void close() {}
}
