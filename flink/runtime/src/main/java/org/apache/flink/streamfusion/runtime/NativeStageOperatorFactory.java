package org.apache.flink.streamfusion.runtime;

import org.apache.flink.streaming.api.operators.AbstractStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.ChainingStrategy;
import org.apache.flink.streaming.api.operators.OneInputStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.api.operators.TwoInputStreamOperatorFactory;

/** Creates the operator of a stage. Its elements are rows or batches, and its inputs one or two, as the {@link StageConfig} says. */
public final class NativeStageOperatorFactory extends AbstractStreamOperatorFactory<Object>
        implements OneInputStreamOperatorFactory<Object, Object>, TwoInputStreamOperatorFactory<Object, Object, Object> {

    private static final long serialVersionUID = 1L;

    private final StageConfig config;

    /** By which the state is known, or null if the operator has none. */
    private final String operatorUid;

    private NativeStageOperatorFactory(StageConfig config, String operatorUid) {
        this.config = config;
        this.operatorUid = operatorUid;
        this.chainingStrategy = ChainingStrategy.ALWAYS;
    }

    /** The factory for a stage, whose operator has no uid. */
    public static NativeStageOperatorFactory of(StageConfig config) {
        return new NativeStageOperatorFactory(config, null);
    }

    /** The same for an operator with this uid, or with none if it is null. */
    public NativeStageOperatorFactory withOperatorUid(String uid) {
        return new NativeStageOperatorFactory(config, uid);
    }

    @Override
    @SuppressWarnings("unchecked")
    public <T extends StreamOperator<Object>> T createStreamOperator(StreamOperatorParameters<Object> parameters) {
        if (config.inputCount() == 1 && !config.input(0).isBatches()) {
            BorrowedRowSerializer.useIfChained(parameters.getStreamConfig(), config.input(0).rowType());
        }
        return (T)
                (config.inputCount() == 1
                        ? new OneInputStageOperator(parameters, config, operatorUid)
                        : new TwoInputStageOperator(parameters, config, operatorUid));
    }

    @Override
    @SuppressWarnings("rawtypes")
    public Class<? extends StreamOperator> getStreamOperatorClass(ClassLoader classLoader) {
        return config.inputCount() == 1 ? OneInputStageOperator.class : TwoInputStageOperator.class;
    }
}
