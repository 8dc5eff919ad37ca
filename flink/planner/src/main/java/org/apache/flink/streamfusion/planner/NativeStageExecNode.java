package org.apache.flink.streamfusion.planner;

import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.dag.Transformation;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.core.memory.ManagedMemoryUseCase;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streamfusion.runtime.KeyGroupSelector;
import org.apache.flink.streamfusion.runtime.KeyGroupTypeInfo;
import org.apache.flink.streamfusion.runtime.NativeBatchTypeInfo;
import org.apache.flink.streamfusion.runtime.NativeKeyGroupPartitioner;
import org.apache.flink.streamfusion.runtime.NativeStageOperatorFactory;
import org.apache.flink.streamfusion.runtime.StageConfig;
import org.apache.flink.streaming.api.transformations.OneInputTransformation;
import org.apache.flink.streaming.api.transformations.PartitionTransformation;
import org.apache.flink.streaming.api.transformations.TwoInputTransformation;
import org.apache.flink.streaming.api.transformations.UnionTransformation;
import org.apache.flink.streaming.runtime.partitioner.GlobalPartitioner;
import org.apache.flink.streaming.runtime.partitioner.StreamPartitioner;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.planner.delegation.PlannerBase;
import org.apache.flink.table.planner.plan.nodes.exec.ExecEdge;
import org.apache.flink.table.planner.plan.nodes.exec.ExecNodeBase;
import org.apache.flink.table.planner.plan.nodes.exec.ExecNodeConfig;
import org.apache.flink.table.planner.plan.nodes.exec.ExecNodeContext;
import org.apache.flink.table.planner.plan.nodes.exec.InputProperty;
import org.apache.flink.table.planner.plan.nodes.exec.stream.StreamExecNode;
import org.apache.flink.table.planner.plan.nodes.exec.utils.ExecNodeUtil;
import org.apache.flink.table.planner.plan.nodes.exec.utils.TransformationMetadata;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.RowType;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;

/**
 * A stage in the place of Flink's nodes: one operator and, if the stage ends in an exchange, the partitioning behind it.
 *
 * <p>It carries the id, uid, name and persisted options of its anchor, and is in the graph only while that is translated.
 *
 * <p>Flink pins a node to parallelism 1 where it demands a singleton distribution or stands behind one. It does so from
 * outside for nodes that say they are one transformation. A stage may be two, so it pins its operator itself.
 */
final class NativeStageExecNode extends ExecNodeBase<RowData> implements StreamExecNode<RowData> {

    /** Whether the operator must have parallelism 1, whatever it reads. */
    enum Distribution {
        ANY,
        SINGLETON
    }

    /**
     * What the operator is called. {@code uidName} becomes a part of its uid if the session's format has such a part, {@code
     * uidSuffix} always; {@code simpleName} becomes a part of its short name.
     */
    record Naming(String uidName, String uidSuffix, String simpleName, String description) {}

    /**
     * The share of native state in the managed memory of operators, where buffers of Flink's own count 1 or more. Beside RocksDB they are
     * not to be made smaller than they need be.
     */
    private static final int STATE_MEMORY_WEIGHT = 4;

    private static final int STATE_MEMORY_WEIGHT_BESIDE_ROCKSDB = 1;

    /** Per input of the operator how many edges are merged into it. */
    private final List<Integer> inputs;

    private final Naming naming;
    private final boolean claimsMemory;
    private final boolean keyed;
    private final NativeStageOperatorFactory factory;
    private final TypeInformation<Object> outputTypeInfo;
    private final Optional<PlanResponse.Exchange> exchange;
    private final Distribution distribution;

    /**
     * Creates the node without its input edges.
     *
     * @param inputs per input of the operator, of which there are one or two, how many edges are merged into it
     * @param exchange the exchange behind the operator, if there is one
     */
    NativeStageExecNode(
            int id,
            ExecNodeContext context,
            ReadableConfig persistedConfig,
            List<Integer> inputs,
            RowType outputType,
            Naming naming,
            StageConfig stageConfig,
            PlanResponse.Output output,
            Optional<PlanResponse.Exchange> exchange,
            Distribution distribution) {
        super(
                id,
                context,
                persistedConfig,
                Collections.nCopies(inputs.stream().mapToInt(Integer::intValue).sum(), InputProperty.DEFAULT),
                outputType,
                naming.description());
        this.inputs = inputs;
        this.naming = naming;
        this.claimsMemory = stageConfig.claimsMemory();
        this.keyed = stageConfig.isKeyed();
        // Made here, where a failure leaves the job to Flink, and not when the graph is translated.
        this.factory = NativeStageOperatorFactory.of(stageConfig);
        this.outputTypeInfo = outputTypeInfo(output, outputType);
        this.exchange = exchange;
        this.distribution = distribution;
    }

    @Override
    protected Transformation<RowData> translateToPlanInternal(PlannerBase planner, ExecNodeConfig config) {
        final List<Transformation<Object>> merged = inputs(planner);
        final TransformationMetadata metadata = metadata(config);
        final Transformation<Object> operator =
                merged.size() == 1
                        ? operator(merged.get(0), metadata)
                        : operator(merged.get(0), merged.get(1), metadata);
        if (claimsMemory) {
            operator.declareManagedMemoryUseCaseAtOperatorScope(
                    ManagedMemoryUseCase.OPERATOR, stateMemoryWeight(config));
        }
        if (distribution == Distribution.SINGLETON || merged.stream().anyMatch(NativeStageExecNode::isSingleton)) {
            operator.setParallelism(1);
            operator.setMaxParallelism(1);
        }
        return asRows(exchange.map(edge -> partition(operator, edge)).orElse(operator));
    }

    private Transformation<Object> operator(Transformation<Object> input, TransformationMetadata metadata) {
        final OneInputTransformation<Object, Object> operator =
                ExecNodeUtil.createOneInputTransformation(
                        input,
                        metadata,
                        factory.withOperatorUid(metadata.getUid()),
                        outputTypeInfo,
                        input.getParallelism(),
                        false);
        if (keyed) {
            operator.setStateKeySelector(KeyGroupSelector.INSTANCE);
            operator.setStateKeyType(KeyGroupTypeInfo.INSTANCE);
        }
        return operator;
    }

    private Transformation<Object> operator(
            Transformation<Object> left, Transformation<Object> right, TransformationMetadata metadata) {
        final TwoInputTransformation<Object, Object, Object> operator =
                ExecNodeUtil.createTwoInputTransformation(
                        left,
                        right,
                        metadata,
                        factory.withOperatorUid(metadata.getUid()),
                        outputTypeInfo,
                        left.getParallelism(),
                        0,
                        false);
        if (keyed) {
            operator.setStateKeySelectors(KeyGroupSelector.INSTANCE, KeyGroupSelector.INSTANCE);
            operator.setStateKeyType(KeyGroupTypeInfo.INSTANCE);
        }
        return operator;
    }

    private static int stateMemoryWeight(ReadableConfig config) {
        final boolean rocksDb = config.get(StateBackendOptions.STATE_BACKEND).equalsIgnoreCase("rocksdb");
        return rocksDb ? STATE_MEMORY_WEIGHT_BESIDE_ROCKSDB : STATE_MEMORY_WEIGHT;
    }

    private List<Transformation<Object>> inputs(PlannerBase planner) {
        final List<Transformation<Object>> merged = new ArrayList<>();
        int from = 0;
        for (int edges : inputs) {
            merged.add(merged(getInputEdges().subList(from, from + edges), planner));
            from += edges;
        }
        return merged;
    }

    private static Transformation<Object> merged(List<ExecEdge> edges, PlannerBase planner) {
        final List<Transformation<Object>> transformations = new ArrayList<>();
        for (ExecEdge edge : edges) {
            transformations.add(asObjects(edge.translateToPlan(planner)));
        }
        return transformations.size() == 1 ? transformations.get(0) : new UnionTransformation<>(transformations);
    }

    private TransformationMetadata metadata(ExecNodeConfig config) {
        final TransformationMetadata metadata =
                createTransformationMeta(naming.uidName(), naming.description(), naming.simpleName(), config);
        return metadata.getUid() == null
                ? metadata
                : new TransformationMetadata(
                        metadata.getUid() + naming.uidSuffix(), metadata.getName(), metadata.getDescription());
    }

    private static TypeInformation<Object> outputTypeInfo(PlanResponse.Output output, RowType rowType) {
        return asObjects(
                output == PlanResponse.Output.BATCHES ? NativeBatchTypeInfo.INSTANCE : InternalTypeInfo.of(rowType));
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Transformation<Object> partition(
            Transformation<Object> operator, PlanResponse.Exchange exchange) {
        final boolean singleton = exchange.keys().isEmpty();
        final StreamPartitioner partitioner = singleton ? new GlobalPartitioner<>() : keyed(exchange);
        final Transformation<Object> partition = new PartitionTransformation<>(operator, partitioner);
        partition.setName("Exchange");
        partition.setParallelism(singleton ? 1 : ExecutionConfig.PARALLELISM_DEFAULT);
        partition.setOutputType(operator.getOutputType());
        return partition;
    }

    private static NativeKeyGroupPartitioner keyed(PlanResponse.Exchange exchange) {
        // Flink configures the real number of key groups when it builds the job graph.
        final int placeholder = KeyGroupRangeAssignment.DEFAULT_LOWER_BOUND_MAX_PARALLELISM;
        return exchange.fragments()
                ? NativeKeyGroupPartitioner.ofFragments(placeholder)
                : NativeKeyGroupPartitioner.ofBatches(placeholder);
    }

    private static boolean isSingleton(Transformation<?> input) {
        return input instanceof PartitionTransformation<?> partition
                && partition.getPartitioner() instanceof GlobalPartitioner;
    }

    // The operator's elements are rows or batches, while Flink's nodes are typed as rows throughout.

    @SuppressWarnings("unchecked")
    private static Transformation<Object> asObjects(Transformation<?> transformation) {
        return (Transformation<Object>) transformation;
    }

    @SuppressWarnings("unchecked")
    private static TypeInformation<Object> asObjects(TypeInformation<?> type) {
        return (TypeInformation<Object>) type;
    }

    @SuppressWarnings("unchecked")
    private static Transformation<RowData> asRows(Transformation<?> transformation) {
        return (Transformation<RowData>) transformation;
    }
}
