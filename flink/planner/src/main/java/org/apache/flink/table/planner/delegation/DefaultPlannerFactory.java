package org.apache.flink.table.planner.delegation;

import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ExecutionOptions;
import org.apache.flink.streamfusion.planner.StreamFusionPlannerFactory;
import org.apache.flink.table.api.TableException;
import org.apache.flink.table.delegation.Planner;
import org.apache.flink.table.delegation.PlannerFactory;

import java.util.Set;

/**
 * Takes the place of Flink's class of the same name where flink-table-planner is on the class path itself, from a jar
 * that comes before it. Flink's service entry names this class, so no entry of ours is needed, nor allowed.
 *
 * <p>Follows: DefaultPlannerFactory, Flink 2.2, except for the planner of streaming.
 */
public final class DefaultPlannerFactory implements PlannerFactory {

    @Override
    public Planner create(Context context) {
        final RuntimeExecutionMode mode = context.getTableConfig().get(ExecutionOptions.RUNTIME_MODE);
        return switch (mode) {
            case STREAMING -> new StreamFusionPlannerFactory().create(context);
            case BATCH ->
                    new BatchPlanner(
                            context.getExecutor(),
                            context.getTableConfig(),
                            context.getModuleManager(),
                            context.getFunctionCatalog(),
                            context.getCatalogManager(),
                            context.getClassLoader());
            default ->
                    throw new TableException(
                            "Unsupported mode '"
                                    + mode
                                    + "' for '"
                                    + ExecutionOptions.RUNTIME_MODE.key()
                                    + "'. Only an explicit BATCH or STREAMING mode is supported in Table API.");
        };
    }

    @Override
    public String factoryIdentifier() {
        return DEFAULT_IDENTIFIER;
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of();
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of();
    }
}
