package org.apache.flink.streamfusion.tests;

import static org.apache.flink.streamfusion.tests.RecoveryQueries.COUNTS;
import static org.apache.flink.streamfusion.tests.RecoveryQueries.createTables;
import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streamfusion.tests.RecoveryQueries.Query;
import org.apache.flink.streamfusion.tests.connector.Change;
import org.apache.flink.streamfusion.tests.connector.ParityCollectFactory;
import org.apache.flink.streamfusion.tests.connector.Trial;
import org.apache.flink.table.api.CompiledPlan;
import org.apache.flink.table.api.PlanReference;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

import org.junit.jupiter.api.io.TempDir;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** What tests share that stop jobs, let them fail, and go on from snapshots: the jobs, and how they keep their state. */
abstract class RecoveryTestBase {
    private static final ConfigOption<Boolean> ENABLED =
            ConfigOptions.key(Engine.ENABLED).booleanType().defaultValue(true);

    @TempDir Path directory;

    /** The table that all attempts and all jobs of a test write. */
    final MaterializedTable table = MaterializedTable.ofUpserts();

    final List<Change> changes = new ArrayList<>();

    /** How a job keeps its state. With full checkpoints of RocksDB nothing stays in memory but the keys of the last batch. */
    Configuration configuration(String backend) {
        Configuration configuration = new Configuration();
        Engine.NATIVE.select(configuration);
        configuration.set(StateBackendOptions.STATE_BACKEND, backend.split(" ")[0]);
        configuration.set(CheckpointingOptions.INCREMENTAL_CHECKPOINTS, backend.endsWith("incremental"));
        if (backend.equals("rocksdb")) {
            configuration.setString("streamfusion.state.cache.max-size", "1");
        }
        configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, directory.resolve("checkpoints").toUri().toString());
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 3);
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(1));
        return configuration;
    }

    /** Tables, and the plan of the job as it is once and for all, whatever it is restored with. */
    final class Job implements AutoCloseable {
        private final Query query;
        final Trial trial;
        private final String sinkId = ParityCollectFactory.register(change -> {
            changes.add(change);
            table.apply(change);
        });
        private String plan;
        private JobClient client;

        Job(Trial trial) {
            this(COUNTS, trial);
        }

        Job(Query query, Trial trial) {
            this.query = query;
            this.trial = trial;
        }

        JobClient submit(Configuration configuration, int parallelism) throws Exception {
            query.options().forEach(configuration::setString);
            StreamTableEnvironment environment = LocalCluster.tableEnvironment(configuration, parallelism);
            createTables(environment, trial.name());
            environment.executeSql(new ParitySink(
                            "counts", query.columns(), ParitySink.UPSERT_KINDS)
                    .createTable(sinkId));
            if (plan == null) {
                plan = environment.compilePlanSql(query.insert()).asJsonString();
            }
            CompiledPlan compiled = environment.loadPlan(PlanReference.fromJsonString(plan));
            PlanReport report = PlanReport.parse(compiled.explain());
            if (configuration.get(ENABLED)) {
                assertThat(report.nativeNodes()).as(report.decisions()).extracting(PlanReport.Node::kind)
                        .contains(query.operator());
                if (!configuration.getString("table.exec.mini-batch.enabled", "false").equals("true")) {
                    assertThat(report.stockNodes()).as(report.decisions()).allMatch(PlanReport.Node::isEndOfPlan);
                }
            } else {
                assertThat(report.nativeNodes()).as(report.decisions()).isEmpty();
            }
            client = compiled.execute().getJobClient().orElseThrow();
            return client;
        }

        @Override
        public void close() throws Exception {
            LocalCluster.end(client);
            ParityCollectFactory.unregister(sinkId);
            trial.close();
            Parity.checkReleased();
        }
    }

    void assertEveryIdIsCountedOnce() {
        assertResult(COUNTS);
    }

    void assertResult(Query query) {
        assertThat(String.join("\n", table.rows())).isEqualTo(query.expected());
    }

    String stopWithSavepoint(JobClient client, SavepointFormatType format) throws Exception {
        return LocalCluster.answer(() -> client.stopWithSavepoint(false, directory.resolve("savepoints").toUri().toString(), format));
    }

    static void await(JobClient client) throws Exception {
        client.getJobExecutionResult().get();
        assertThat(client.getJobStatus().get()).isEqualTo(JobStatus.FINISHED);
    }

    static Configuration restoredFrom(String snapshot, Configuration configuration) {
        configuration.set(StateRecoveryOptions.SAVEPOINT_PATH, snapshot);
        return configuration;
    }
}
