package org.apache.flink.table.planner.loader;

import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ExecutionOptions;
import org.apache.flink.table.api.SqlDialect;
import org.apache.flink.table.delegation.ParserFactory;
import org.apache.flink.table.delegation.Planner;
import org.apache.flink.table.delegation.PlannerFactory;
import org.apache.flink.table.factories.FactoryUtil;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import java.util.Locale;
import java.util.Optional;
import java.util.Set;

/**
 * Takes the place of Flink's class of the same name where the planner has a class loader of its own
 * (flink-table-planner-loader), from a jar that comes before it. Flink's service entry names this class, so no entry of
 * ours is needed, nor allowed.
 *
 * <p>Planners for streaming come from {@link IsolatedPlanner}, if it could be put in place, and else from Flink.
 *
 * <p>Follows: DelegatePlannerFactory, Flink 2.2, except for the planner of streaming.
 */
public final class DelegatePlannerFactory implements PlannerFactory {

    private static final Logger LOG = LoggerFactory.getLogger(DelegatePlannerFactory.class);

    private final PlannerFactory stock = PlannerModule.getInstance().loadPlannerFactory();

    @Override
    public Planner create(Context context) {
        addDialect(context.getTableConfig().getSqlDialect());
        if (context.getTableConfig().get(ExecutionOptions.RUNTIME_MODE) == RuntimeExecutionMode.STREAMING) {
            final Optional<PlannerFactory> accelerated = IsolatedPlanner.factory();
            if (accelerated.isPresent()) {
                try {
                    return accelerated.get().create(context);
                } catch (LinkageError e) {
                    LOG.warn("StreamFusion is off and jobs run on stock Flink, whose planner is not the expected one", e);
                }
            }
        }
        return stock.create(context);
    }

    /** The parser of another dialect comes in a jar outside of the planner's class loader, which must see it. */
    private static void addDialect(SqlDialect dialect) {
        if (dialect != SqlDialect.DEFAULT) {
            final ParserFactory parser =
                    FactoryUtil.discoverFactory(
                            PlannerFactory.class.getClassLoader(),
                            ParserFactory.class,
                            dialect.name().toLowerCase(Locale.ROOT));
            PlannerModule.getInstance()
                    .addUrlToClassLoader(parser.getClass().getProtectionDomain().getCodeSource().getLocation());
        }
    }

    @Override
    public String factoryIdentifier() {
        return stock.factoryIdentifier();
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return stock.requiredOptions();
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return stock.optionalOptions();
    }
}
