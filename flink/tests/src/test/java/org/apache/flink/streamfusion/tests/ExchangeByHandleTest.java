package org.apache.flink.streamfusion.tests;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streamfusion.tests.connector.PacedIdsFactory;
import org.apache.flink.streamfusion.tests.connector.ParityCollectFactory;
import org.apache.flink.table.api.StatementSet;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * A job with a keyed exchange inside one process: its batches go from task to task by handle, unless an option stands in the way. They must not
 * go by bytes without anybody noticing, since results are the same.
 */
@RequiresNative
@Timeout(value = 60, unit = TimeUnit.SECONDS)
class ExchangeByHandleTest {
    private static final int RESULTS = 200;

    @Test
    void batchesGoByHandleWithinAProcess() throws Exception {
        try (Job job = new Job(Map.of())) {
            job.awaitResults();
            // those in front of the first one that finds all receivers open went as bytes
            while (JobCounters.batchesByHandle() == 0) {
                Thread.sleep(10);
            }
        }
    }

    @ParameterizedTest
    @CsvSource({
        Engine.EXCHANGE_BY_HANDLE + ",false",
        // what is on its way is part of such a checkpoint
        "execution.checkpointing.unaligned.enabled,true"
    })
    void batchesGoAsBytesWhereAnOptionAsksForIt(String option, String value) throws Exception {
        try (Job job = new Job(Map.of(option, value, "execution.checkpointing.interval", "1 h"))) {
            job.awaitResults();
            assertThat(JobCounters.batchesByHandle()).isZero();
        }
    }

    /** A job that runs until it is closed. */
    private static final class Job implements AutoCloseable {
        private final CountDownLatch results = new CountDownLatch(RESULTS);
        private final String sink = ParityCollectFactory.register(change -> results.countDown());
        private final JobClient client;

        Job(Map<String, String> options) {
            Configuration configuration = new Configuration();
            Engine.NATIVE.select(configuration);
            configuration.setString(Engine.ISLANDS_WEIGH, "false");
            options.forEach(configuration::setString);
            StreamTableEnvironment environment = LocalCluster.tableEnvironment(configuration, 2);
            // never released: it goes on for as long as the job runs
            environment.executeSql("CREATE TABLE ids (id BIGINT) WITH ('connector'='%s', 'rows'='1000000', 'release-file'='%s')"
                    .formatted(PacedIdsFactory.IDENTIFIER, Path.of("no such file")));
            environment.executeSql(
                    "CREATE TABLE `out` (k BIGINT, n BIGINT) WITH ('connector'='%s', 'sink-id'='%s', 'changelog'='+I,-U,+U')"
                            .formatted(ParityCollectFactory.IDENTIFIER, sink));
            StatementSet statements = environment.createStatementSet();
            statements.addInsertSql("INSERT INTO `out` SELECT MOD(id, 7), COUNT(*) FROM ids GROUP BY MOD(id, 7)");
            assertThat(PlanReport.parse(statements.explain()).nativeNodes().stream().map(PlanReport.Node::kind).toList())
                    .contains("Exchange", "GroupAggregate");
            JobCounters.reset();
            client = statements.execute().getJobClient().orElseThrow();
        }

        void awaitResults() throws InterruptedException {
            assertThat(results.await(30, TimeUnit.SECONDS)).as("results within 30 s").isTrue();
        }

        @Override
        public void close() throws Exception {
            try {
                LocalCluster.end(client);
            } finally {
                ParityCollectFactory.unregister(sink);
            }
        }
    }
}
