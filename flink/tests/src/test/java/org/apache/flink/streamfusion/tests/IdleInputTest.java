package org.apache.flink.streamfusion.tests;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streamfusion.tests.connector.PacedIdsFactory;
import org.apache.flink.streamfusion.tests.connector.ParityCollectFactory;
import org.apache.flink.streamfusion.tests.connector.Trial;
import org.apache.flink.streamfusion.tests.connector.TrialIdsFactory;
import org.apache.flink.table.api.StatementSet;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * A job with two sources, of which one falls silent and does not end: time goes on with the other one if the silent one is declared
 * idle, and stands still if not. What joins the two are a union in front of a shuffle and an operator with two inputs.
 */
@RequiresNative
class IdleInputTest {
    private static final int ROWS_IN_TIME = 5;

    private enum Query {
        UNION("SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE both, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end",
                "WindowAggregate"),
        JOIN("SELECT b.id FROM busy b LEFT JOIN quiet q ON b.id = q.id + 1000000 AND q.ts BETWEEN b.ts AND b.ts + INTERVAL '1' SECOND",
                "IntervalJoin");

        private final String select;
        private final String node;

        Query(String select, String node) {
            this.select = select;
            this.node = node;
        }
    }

    @ParameterizedTest
    @EnumSource(Query.class)
    void timeGoesOnWithoutAnIdleInput(Query query) throws Exception {
        try (Job job = new Job(query, "100 ms")) {
            assertThat(job.rows.await(30, TimeUnit.SECONDS)).as("rows that only time lets go").isTrue();
        }
    }

    @Test
    void timeWaitsForAnInputThatIsSilentButNotIdle() throws Exception {
        try (Job job = new Job(Query.UNION, "0 ms")) {
            job.trial.awaitHalf();
            assertThat(job.rows.await(1500, TimeUnit.MILLISECONDS)).as("the silent input holds time back").isFalse();
        }
    }

    /** A job that runs until it is closed. */
    private static final class Job implements AutoCloseable {
        private final Trial trial = Trial.waiting(1);
        private final CountDownLatch rows = new CountDownLatch(ROWS_IN_TIME);
        private final String sink = ParityCollectFactory.register(change -> rows.countDown());
        private final JobClient client;

        Job(Query query, String idleTimeout) {
            Configuration configuration = new Configuration();
            Engine.NATIVE.select(configuration);
            configuration.setString("table.exec.source.idle-timeout", idleTimeout);
            configuration.setString("table.optimizer.agg-phase-strategy", "ONE_PHASE");
            configuration.setString(Engine.ISLANDS_WEIGH, "false");
            StreamTableEnvironment environment = LocalCluster.tableEnvironment(configuration, 1);
            String columns = "(id BIGINT, ts AS TO_TIMESTAMP_LTZ(id * 1000, 3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)";
            // never released: it goes on for as long as the job runs
            environment.executeSql("CREATE TABLE busy " + columns + " WITH ('connector'='%s', 'rows'='1000000', 'release-file'='%s')"
                    .formatted(PacedIdsFactory.IDENTIFIER, Path.of("no such file")));
            environment.executeSql("CREATE TABLE quiet " + columns + " WITH ('connector'='%s', 'rows'='%d', 'trial'='%s')"
                    .formatted(TrialIdsFactory.IDENTIFIER, TrialIdsFactory.PARTITIONS * 2, trial.name()));
            environment.executeSql("CREATE VIEW `both` AS SELECT id, ts FROM busy UNION ALL SELECT id, ts FROM quiet");
            environment.executeSql("CREATE TABLE `out` (n BIGINT) WITH ('connector'='%s', 'sink-id'='%s', 'changelog'='+I')"
                    .formatted(ParityCollectFactory.IDENTIFIER, sink));
            StatementSet statements = environment.createStatementSet();
            statements.addInsertSql("INSERT INTO `out` " + query.select.replace("TABLE both", "TABLE `both`"));
            assertThat(PlanReport.parse(statements.explain()).nativeNodes().stream().map(PlanReport.Node::kind).toList())
                    .contains("WatermarkAssigner", query.node);
            client = statements.execute().getJobClient().orElseThrow();
        }

        @Override
        public void close() throws Exception {
            trial.release();
            try (trial) {
                LocalCluster.end(client);
            } finally {
                ParityCollectFactory.unregister(sink);
            }
        }
    }
}
