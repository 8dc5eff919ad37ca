package org.apache.flink.streamfusion.planner;

import org.apache.flink.api.common.functions.Function;
import org.apache.flink.api.dag.Transformation;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streamfusion.runtime.HostLookup;
import org.apache.flink.streamfusion.runtime.NativeException;
import org.apache.flink.streaming.api.operators.AbstractUdfStreamOperator;
import org.apache.flink.streaming.api.operators.SimpleOperatorFactory;
import org.apache.flink.streaming.api.operators.StreamOperatorFactory;
import org.apache.flink.streaming.api.operators.async.AsyncWaitOperatorFactory;
import org.apache.flink.streaming.api.transformations.OneInputTransformation;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.planner.delegation.PlannerBase;
import org.apache.flink.table.planner.plan.nodes.exec.ExecEdge;
import org.apache.flink.table.planner.plan.nodes.exec.ExecNodeBase;
import org.apache.flink.table.planner.plan.nodes.exec.ExecNodeConfig;
import org.apache.flink.table.planner.plan.nodes.exec.ExecNodeContext;
import org.apache.flink.table.planner.plan.nodes.exec.stream.StreamExecLookupJoin;
import org.apache.flink.table.planner.plan.nodes.exec.stream.StreamExecNode;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.RowType;

import java.lang.reflect.Field;
import java.util.List;

/**
 * Takes the lookup of a lookup join out of the operator that Flink translates the join to.
 *
 * <p>The function has everything in it: the connector's lookup function with its cache and its retries, what is filtered and
 * projected behind it, and the conditions of the join. So there is no second translation of any of that.
 */
final class LookupFunctions {

    /** A function, and how it is called if it is asynchronous, else null. */
    record Found(Function function, HostLookup.Async async) {}

    private LookupFunctions() {}

    /** Translates {@code join} alone. Whatever else it reads from stays untouched. */
    static Found of(StreamExecLookupJoin join, PlannerBase planner) {
        final List<ExecEdge> edges = join.getInputEdges();
        final Transformation<RowData> operator;
        try {
            final NoInput input = new NoInput((RowType) edges.get(0).getOutputType());
            join.setInputEdges(List.of(ExecEdge.builder().source(input).target(join).build()));
            operator =
                    join.translateToPlanInternal(
                            planner, ExecNodeConfig.ofTableConfig(planner.getTableConfig(), false));
        } finally {
            join.setInputEdges(edges);
        }
        if (operator instanceof OneInputTransformation<?, RowData> one) {
            final StreamOperatorFactory<RowData> factory = one.getOperatorFactory();
            if (factory instanceof AsyncWaitOperatorFactory<?, ?> async) {
                return new Found(
                        (Function) field(async, "asyncFunction"),
                        new HostLookup.Async((long) field(async, "timeout"), (int) field(async, "capacity")));
            }
            if (factory instanceof SimpleOperatorFactory<RowData> simple
                    && simple.getOperator() instanceof AbstractUdfStreamOperator<?, ?> wrapper) {
                return new Found(wrapper.getUserFunction(), null);
            }
        }
        throw new NativeException("Flink translates " + join.getDescription() + " to an operator that is not known");
    }

    /** What Flink has no method for. */
    private static Object field(AsyncWaitOperatorFactory<?, ?> factory, String name) {
        try {
            final Field field = AsyncWaitOperatorFactory.class.getDeclaredField(name);
            field.setAccessible(true);
            return field.get(factory);
        } catch (ReflectiveOperationException e) {
            throw new NativeException("Flink's operator of asynchronous functions has no " + name, e);
        }
    }

    /** Stands for the input of the join, which is not translated. */
    private static final class NoInput extends ExecNodeBase<RowData> implements StreamExecNode<RowData> {

        NoInput(RowType type) {
            super(
                    ExecNodeContext.newNodeId(),
                    ExecNodeContext.newContext(StreamExecLookupJoin.class),
                    new Configuration(),
                    List.of(),
                    type,
                    "no input");
        }

        @Override
        protected Transformation<RowData> translateToPlanInternal(PlannerBase planner, ExecNodeConfig config) {
            return new NoRows(InternalTypeInfo.of((RowType) getOutputType()));
        }
    }

    /** Is read by an operator that never runs. */
    private static final class NoRows extends Transformation<RowData> {

        NoRows(InternalTypeInfo<RowData> type) {
            super("no rows", type, 1);
        }

        @Override
        protected List<Transformation<?>> getTransitivePredecessorsInternal() {
            return List.of();
        }

        @Override
        public List<Transformation<?>> getInputs() {
            return List.of();
        }
    }
}
