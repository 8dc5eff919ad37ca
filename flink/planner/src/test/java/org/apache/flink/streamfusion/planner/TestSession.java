package org.apache.flink.streamfusion.planner;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.TableConfig;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.bridge.java.internal.StreamTableEnvironmentImpl;
import org.apache.flink.table.catalog.CatalogManager;
import org.apache.flink.table.catalog.CatalogStoreHolder;
import org.apache.flink.table.catalog.FunctionCatalog;
import org.apache.flink.table.catalog.GenericInMemoryCatalog;
import org.apache.flink.table.catalog.GenericInMemoryCatalogStore;
import org.apache.flink.table.delegation.Executor;
import org.apache.flink.table.delegation.Planner;
import org.apache.flink.table.delegation.PlannerFactory;
import org.apache.flink.table.module.ModuleManager;
import org.apache.flink.table.planner.delegation.DefaultExecutor;
import org.apache.flink.table.resource.ResourceManager;
import org.apache.flink.util.FlinkUserCodeClassLoaders;
import org.apache.flink.util.MutableURLClassLoader;

import java.net.URL;

/** A table environment whose planner is made by a given factory, with a few tables. */
record TestSession(TableEnvironment tables, StreamExecutionEnvironment environment, Planner planner) {

    static TestSession create(PlannerFactory factory) {
        return create(factory, new Configuration());
    }

    static TestSession create(PlannerFactory factory, Configuration configuration) {
        final MutableURLClassLoader classLoader =
                FlinkUserCodeClassLoaders.create(new URL[0], TestSession.class.getClassLoader(), configuration);
        final StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        final Executor executor = new DefaultExecutor(environment);
        final TableConfig config = TableConfig.getDefault();
        config.setRootConfiguration(executor.getConfiguration());
        config.addConfiguration(configuration);
        final ResourceManager resources = new ResourceManager(configuration, classLoader);
        final ModuleManager modules = new ModuleManager();
        final CatalogManager catalogs =
                CatalogManager.newBuilder()
                        .classLoader(classLoader)
                        .config(config)
                        .defaultCatalog("default_catalog", new GenericInMemoryCatalog("default_catalog", "default_database"))
                        .catalogStoreHolder(
                                CatalogStoreHolder.newBuilder()
                                        .catalogStore(new GenericInMemoryCatalogStore())
                                        .config(config)
                                        .classloader(classLoader)
                                        .build())
                        .build();
        final FunctionCatalog functions = new FunctionCatalog(config, resources, catalogs, modules);
        final Planner planner =
                factory.create(
                        new PlannerFactory.DefaultPlannerContext(
                                executor, config, classLoader, modules, catalogs, functions));
        final TableEnvironment tables =
                new StreamTableEnvironmentImpl(
                        catalogs, modules, resources, functions, config, environment, planner, executor, true);
        tables.executeSql(
                "CREATE TABLE bids (auction BIGINT, price BIGINT, channel STRING, ts TIMESTAMP(3))"
                        + " WITH ('connector' = 'datagen', 'number-of-rows' = '100')");
        tables.executeSql("CREATE TABLE texts (auction BIGINT, channel STRING) WITH ('connector' = 'blackhole')");
        tables.executeSql("CREATE TABLE totals (auction BIGINT, total BIGINT) WITH ('connector' = 'blackhole')");
        tables.executeSql("CREATE TABLE bids_copy WITH ('connector' = 'blackhole') LIKE bids (EXCLUDING OPTIONS)");
        return new TestSession(tables, environment, planner);
    }

    static TestSession with(PlanService service) {
        return create(factory(service));
    }

    static PlannerFactory factory(PlanService service) {
        return new StreamFusionPlannerFactory(StreamFusionPlannerFactory.SUPPORTED_FLINK_VERSION, service);
    }
}
