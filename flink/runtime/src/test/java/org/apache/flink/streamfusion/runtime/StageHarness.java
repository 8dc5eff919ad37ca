package org.apache.flink.streamfusion.runtime;

import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.OneInputStreamOperatorTestHarness;
import org.apache.flink.util.InstantiationUtil;

import java.util.function.Consumer;

/** A stage operator, shipped and opened as in a task. */
final class StageHarness extends OneInputStreamOperatorTestHarness<Object, Object> {

    final CollectingOutput out;

    StageHarness(StageConfig config) throws Exception {
        this(config, batch -> { });
    }

    /** A stage whose output batches are borrowed by {@code batches}. */
    StageHarness(StageConfig config, Consumer<NativeBatch> batches) throws Exception {
        super(InstantiationUtil.clone(NativeStageOperatorFactory.of(config)), 1, 1, 0);
        out = new CollectingOutput(batches);
        setOutputCreator(serializer -> out);
        setup();
    }

    void process(Object value) {
        try {
            processElement(new StreamRecord<>(value));
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    /** Closes the operator. Unlike a task, the harness finishes it before, which one that failed refuses. */
    @Override
    public void close() {
        try {
            super.close();
        } catch (Exception e) {
            closeWithoutFinish();
        }
    }

    private void closeWithoutFinish() {
        try {
            getOperator().close();
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }
}
