package org.apache.flink.streamfusion.runtime;

import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.operators.coordination.OperatorCoordinator;
import org.apache.flink.streaming.api.operators.AbstractStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.ChainingStrategy;
import org.apache.flink.streaming.api.operators.CoordinatedOperatorFactory;
import org.apache.flink.streaming.api.operators.OneInputStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;

/** Creates the operator of a stage. Its elements are rows or batches, as the {@link StageConfig} says. */
public class NativeStageOperatorFactory extends AbstractStreamOperatorFactory<Object>
        implements OneInputStreamOperatorFactory<Object, Object> {

    private static final long serialVersionUID = 1L;

    final StageConfig config;

    private NativeStageOperatorFactory(StageConfig config) {
        this.config = config;
        this.chainingStrategy = ChainingStrategy.ALWAYS;
    }

    /** The factory for a stage; that of a stateful one brings what refuses snapshots. */
    public static NativeStageOperatorFactory of(StageConfig config) {
        return config.stateful ? new Stateful(config) : new NativeStageOperatorFactory(config);
    }

    @Override
    @SuppressWarnings("unchecked")
    public <T extends StreamOperator<Object>> T createStreamOperator(StreamOperatorParameters<Object> parameters) {
        return (T) new NativeStageOperator(parameters, config);
    }

    @Override
    @SuppressWarnings("rawtypes")
    public Class<? extends StreamOperator> getStreamOperatorClass(ClassLoader classLoader) {
        return NativeStageOperator.class;
    }

    private static final class Stateful extends NativeStageOperatorFactory
            implements CoordinatedOperatorFactory<Object> {

        private static final long serialVersionUID = 1L;

        Stateful(StageConfig config) {
            super(config);
        }

        @Override
        public OperatorCoordinator.Provider getCoordinatorProvider(String operatorName, OperatorID operatorId) {
            return new SnapshotRefusal.Provider(operatorId, config.description);
        }
    }
}
