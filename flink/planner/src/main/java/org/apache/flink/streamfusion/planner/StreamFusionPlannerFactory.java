package org.apache.flink.streamfusion.planner;

import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.table.delegation.Planner;
import org.apache.flink.table.delegation.PlannerFactory;
import org.apache.flink.table.planner.delegation.StreamPlanner;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import java.util.Set;

/**
 * Creates planners for streaming: one that runs operators natively where the version of Flink is the supported one, else
 * Flink's own.
 *
 * <p>It is no service of its own, since a second factory of the identifier "default" would be an error in Flink. Twins of
 * Flink's factories call it; it implements Flink's interface so that one that lives in another class loader can.
 */
public final class StreamFusionPlannerFactory implements PlannerFactory {

    /** The operators reproduce exactly this version, and the planner's internals may change in any. */
    static final String SUPPORTED_FLINK_VERSION = "2.2.1";

    private static final Logger LOG = LoggerFactory.getLogger(StreamFusionPlannerFactory.class);

    private final String flinkVersion;
    private final PlanService service;

    public StreamFusionPlannerFactory() {
        this(EnvironmentInformation.getVersion(), PlanService.nativeLibrary());
    }

    StreamFusionPlannerFactory(String flinkVersion, PlanService service) {
        this.flinkVersion = flinkVersion;
        this.service = service;
    }

    @Override
    public Planner create(Context context) {
        try {
            if (flinkVersion.equals(SUPPORTED_FLINK_VERSION)) {
                return nativePlanner(context);
            }
            LOG.warn(
                    "StreamFusion is off and jobs run on stock Flink: it supports Flink {}, this is Flink {}",
                    SUPPORTED_FLINK_VERSION,
                    flinkVersion);
        } catch (LinkageError e) {
            LOG.warn("StreamFusion is off and jobs run on stock Flink, whose planner is not the expected one", e);
        }
        return stockPlanner(context);
    }

    private Planner nativePlanner(Context context) {
        return new NativeStreamPlanner(
                context.getExecutor(),
                context.getTableConfig(),
                context.getModuleManager(),
                context.getFunctionCatalog(),
                context.getCatalogManager(),
                context.getClassLoader(),
                service);
    }

    private static Planner stockPlanner(Context context) {
        return new StreamPlanner(
                context.getExecutor(),
                context.getTableConfig(),
                context.getModuleManager(),
                context.getFunctionCatalog(),
                context.getCatalogManager(),
                context.getClassLoader());
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
