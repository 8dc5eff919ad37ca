package org.apache.flink.streamfusion.dist;

import org.apache.flink.streamfusion.runtime.StageConfig;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.internal.TableEnvironmentImpl;

/** Uses Flink in the class loader of a test. Called by name. */
public final class Probe {

    private Probe() {}

    public static String explainStreaming() {
        return explain(TableEnvironment.create(EnvironmentSettings.inStreamingMode()));
    }

    public static String explainBatch() {
        return explain(TableEnvironment.create(EnvironmentSettings.inBatchMode()));
    }

    /** Whether the planner's classes see the very runtime classes that operators are made of. */
    public static String runtimeLoaders() throws ClassNotFoundException {
        final TableEnvironment tables = TableEnvironment.create(EnvironmentSettings.inStreamingMode());
        final ClassLoader planner = ((TableEnvironmentImpl) tables).getPlanner().getClass().getClassLoader();
        return Class.forName(StageConfig.class.getName(), false, planner) == StageConfig.class ? "same" : "different";
    }

    /** What the jar finds wrong with the class path; empty for nothing. */
    public static String complaint() {
        return ClassPathCheck.complaint().orElse("");
    }

    private static String explain(TableEnvironment tables) {
        tables.executeSql(
                "CREATE TABLE bids (auction BIGINT, price BIGINT)"
                        + " WITH ('connector' = 'datagen', 'number-of-rows' = '10')");
        tables.executeSql("CREATE TABLE prices (auction BIGINT, price BIGINT) WITH ('connector' = 'blackhole')");
        return tables.explainSql("INSERT INTO prices SELECT auction, price * 2 FROM bids WHERE price > 1");
    }
}
