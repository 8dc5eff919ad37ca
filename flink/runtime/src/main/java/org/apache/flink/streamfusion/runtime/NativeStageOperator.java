package org.apache.flink.streamfusion.runtime;

import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.BoundedOneInput;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** A stage as one Flink operator. */
final class NativeStageOperator extends AbstractStreamOperator<Object>
        implements OneInputStreamOperator<Object, Object>, BoundedOneInput {

    private static final long serialVersionUID = 1L;

    private final StageConfig stageConfig;

    NativeStageOperator(StreamOperatorParameters<Object> parameters, StageConfig config) {
        super(parameters);
        this.stageConfig = config;
    }

    @Override
    public void processElement(StreamRecord<Object> element) {
        throw new UnsupportedOperationException(stageConfig.description);
    }

    @Override
    public void endInput() {}
}
