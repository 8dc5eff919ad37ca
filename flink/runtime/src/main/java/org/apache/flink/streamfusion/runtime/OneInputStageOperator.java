package org.apache.flink.streamfusion.runtime;

import org.apache.flink.runtime.event.WatermarkEvent;
import org.apache.flink.streaming.api.operators.BoundedOneInput;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.RecordAttributes;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;

/** A stage with one input, or with several that Flink merges. */
final class OneInputStageOperator extends AbstractStageOperator
        implements OneInputStreamOperator<Object, Object>, BoundedOneInput {

    private static final long serialVersionUID = 1L;

    OneInputStageOperator(StreamOperatorParameters<Object> parameters, StageConfig config, String operatorUid) {
        super(parameters, config, operatorUid);
    }

    @Override
    public void processElement(StreamRecord<Object> element) throws Exception {
        processElement(0, element);
    }

    @Override
    public void endInput() throws Exception {
        endOfInput(0);
    }

    @Override
    public void processWatermark(Watermark watermark) throws Exception {
        passInOrder(0, () -> super.processWatermark(watermark));
    }

    @Override
    public void processWatermark(WatermarkEvent watermark) throws Exception {
        passInOrder(0, () -> super.processWatermark(watermark));
    }

    @Override
    public void processWatermarkStatus(WatermarkStatus status) throws Exception {
        passInOrder(0, () -> super.processWatermarkStatus(status));
    }

    @Override
    public void processRecordAttributes(RecordAttributes attributes) throws Exception {
        passInOrder(0, () -> super.processRecordAttributes(attributes));
    }
}
