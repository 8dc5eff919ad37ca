package org.apache.flink.streamfusion.runtime;

import org.apache.flink.runtime.event.WatermarkEvent;
import org.apache.flink.streaming.api.operators.BoundedMultiInput;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.api.operators.TwoInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.RecordAttributes;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.util.ExceptionUtils;
import org.apache.flink.util.function.ThrowingRunnable;

/**
 * A stage whose first node tells two inputs apart, a join. Rows of both reach it in the order in which they arrived here.
 *
 * <p>A watermark of either input ends the bundle of that node, whether or not it moves the time of the operator, as in
 * MiniBatchStreamingJoinOperator. Flink combines the two; what comes of that goes through the stage. One difference: where an
 * input that becomes idle lets the watermark of the other one pass, Flink emits it in front of the bundle, whose rows may be late then.
 * Here it ends the bundle.
 */
final class TwoInputStageOperator extends AbstractStageOperator
        implements TwoInputStreamOperator<Object, Object, Object>, BoundedMultiInput {

    private static final long serialVersionUID = 1L;

    TwoInputStageOperator(StreamOperatorParameters<Object> parameters, StageConfig config, String operatorUid) {
        super(parameters, config, operatorUid);
    }

    @Override
    public void open() throws Exception {
        super.open();
        if (ignoresSecondWatermarks()) {
            // there is none of the first input yet, so that nothing goes on
            super.processWatermark2(Watermark.MAX_WATERMARK);
        }
    }

    @Override
    public void processElement1(StreamRecord<Object> element) throws Exception {
        processElement(0, element);
    }

    @Override
    public void processElement2(StreamRecord<Object> element) throws Exception {
        processElement(1, element);
    }

    /** {@code inputId} counts from 1. */
    @Override
    public void endInput(int inputId) throws Exception {
        endOfInput(inputId - 1);
    }

    @Override
    public void processWatermark1(Watermark watermark) throws Exception {
        passWithEndOfBundle(0, () -> super.processWatermark1(watermark));
    }

    @Override
    public void processWatermark2(Watermark watermark) throws Exception {
        passWithEndOfBundle(1, () -> super.processWatermark2(watermark));
    }

    private void passWithEndOfBundle(int input, ThrowingRunnable<Exception> watermark) throws Exception {
        passInOrder(
                input,
                () -> {
                    endBundles(Native.FLUSH_WATERMARK);
                    watermark.run();
                });
    }

    @Override
    public void processWatermark1(WatermarkEvent watermark) throws Exception {
        passInOrder(0, () -> super.processWatermark1(watermark));
    }

    @Override
    public void processWatermark2(WatermarkEvent watermark) throws Exception {
        passInOrder(1, () -> super.processWatermark2(watermark));
    }

    @Override
    protected void processWatermarkStatus(WatermarkStatus status, int input) throws Exception {
        passInOrder(input, () -> super.processWatermarkStatus(status, input));
    }

    @Override
    public void processRecordAttributes1(RecordAttributes attributes) {
        passUnchecked(0, () -> super.processRecordAttributes1(attributes));
    }

    @Override
    public void processRecordAttributes2(RecordAttributes attributes) {
        passUnchecked(1, () -> super.processRecordAttributes2(attributes));
    }

    /** For methods that Flink declares without exceptions. */
    private void passUnchecked(int input, ThrowingRunnable<Exception> event) {
        try {
            passInOrder(input, event);
        } catch (Exception e) {
            ExceptionUtils.rethrow(e);
        }
    }
}
