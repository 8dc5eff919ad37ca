package org.apache.flink.streamfusion.tests;

import static org.apache.flink.streamfusion.tests.RecoveryQueries.BEHIND;
import static org.apache.flink.streamfusion.tests.RecoveryQueries.COUNTS;
import static org.apache.flink.streamfusion.tests.RecoveryQueries.COUNTS_OF_COUNTS;
import static org.apache.flink.streamfusion.tests.RecoveryQueries.FIRST_BY_ARRIVAL;
import static org.apache.flink.streamfusion.tests.RecoveryQueries.HIGHEST;
import static org.apache.flink.streamfusion.tests.RecoveryQueries.JOINED;
import static org.apache.flink.streamfusion.tests.RecoveryQueries.JOINED_BY_UNIQUE_KEYS;
import static org.apache.flink.streamfusion.tests.RecoveryQueries.LAST_BY_ARRIVAL;
import static org.apache.flink.streamfusion.tests.RecoveryQueries.LAST_UPSERTS;
import static org.apache.flink.streamfusion.tests.RecoveryQueries.NEIGHBOURS;
import static org.apache.flink.streamfusion.tests.RecoveryQueries.RUNNING;
import static org.apache.flink.streamfusion.tests.RecoveryQueries.WINDOWS;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streamfusion.tests.RecoveryQueries.Query;
import org.apache.flink.streamfusion.tests.connector.Trial;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/** Native jobs that fail, are stopped, moved and rescaled: every id of the source is in the final result once. */
@RequiresNative
@Timeout(120)
class RecoveryTest extends RecoveryTestBase {

    // -------------------------------------------------------------------------------------------------------- failure

    @ParameterizedTest
    @CsvSource({
        "hashmap,",
        "rocksdb,",
        "rocksdb incremental,",
        "hashmap, execution.checkpointing.snapshot-compression",
        "hashmap, execution.checkpointing.file-merging.enabled",
        "rocksdb incremental, execution.checkpointing.local-backup.enabled",
        "rocksdb, state.backend.local-recovery"
    })
    void jobThatFailsAfterACheckpointGoesOnFromThere(String backend, String option) throws Exception {
        Configuration configuration = configuration(backend);
        if (option != null) {
            configuration.setString(option, "true");
        }
        configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofMillis(50));
        try (Job job = new Job(Trial.failing(2))) {
            JobClient client = job.submit(configuration, 2);
            job.trial.awaitHalf();
            awaitCheckpoint(client);
            job.trial.release();
            await(client);
            assertThat(job.trial.attempts()).isEqualTo(2);
            assertThat(job.trial.restored()).isEqualTo(2);
            assertEveryIdIsCountedOnce();
        }
    }

    @Test
    void stagesWithStateBehindEachOtherFailAndRecoverTogether() throws Exception {
        Configuration configuration = configuration("hashmap");
        configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofMillis(50));
        try (Job job = new Job(COUNTS_OF_COUNTS, Trial.failing(2))) {
            JobClient client = job.submit(configuration, 2);
            job.trial.awaitHalf();
            awaitCheckpoint(client);
            job.trial.release();
            await(client);
            assertThat(job.trial.restored()).isEqualTo(2);
            assertResult(COUNTS_OF_COUNTS);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"hashmap", "rocksdb"})
    void bothSidesOfAJoinRecover(String backend) throws Exception {
        Configuration configuration = configuration(backend);
        configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofMillis(50));
        try (Job job = new Job(JOINED, Trial.failing(2))) {
            JobClient client = job.submit(configuration, 2);
            job.trial.awaitHalf();
            awaitCheckpoint(client);
            job.trial.release();
            await(client);
            assertThat(job.trial.restored()).isPositive();
            assertResult(JOINED);
        }
    }

    static List<Arguments> rowsPerKey() {
        List<Arguments> cases = new ArrayList<>();
        for (Query query : List.of(FIRST_BY_ARRIVAL, LAST_BY_ARRIVAL, LAST_UPSERTS, HIGHEST, BEHIND)) {
            cases.add(Arguments.of(query, false));
            cases.add(Arguments.of(query, true));
        }
        return cases;
    }

    /** With mini-batch in bundles of 1,000 rows, which no checkpoint and no failure waits for. */
    @ParameterizedTest
    @MethodSource("rowsPerKey")
    void rowsPerKeyAreThoseOfTheCheckpoint(Query query, boolean bundles) throws Exception {
        Configuration configuration = configuration(bundles ? "rocksdb incremental" : "rocksdb");
        if (bundles) {
            inBundles(configuration);
        }
        failAndRecover(query, configuration);
    }

    static Stream<Arguments> byRowTime() {
        return Stream.of(WINDOWS, RUNNING, NEIGHBOURS)
                .flatMap(query -> Stream.of("hashmap", "rocksdb incremental").map(backend -> Arguments.of(query, backend)));
    }

    /** Some of it has gone out before the checkpoint; what comes behind is neither late nor there twice. */
    @ParameterizedTest
    @MethodSource("byRowTime")
    void whatWaitsForEventTimeIsThatOfTheCheckpoint(Query query, String backend) throws Exception {
        failAndRecover(query, configuration(backend));
    }

    /** The last case goes through the local, the incremental and the global aggregate. */
    @ParameterizedTest
    @CsvSource({"hashmap, ONE_PHASE, false", "rocksdb, ONE_PHASE, false", "hashmap, TWO_PHASE, true"})
    void bundleOfGroupsThatFailsIsThereOnce(String backend, String phases, String split) throws Exception {
        Configuration configuration = configuration(backend);
        inBundles(configuration);
        configuration.setString("table.optimizer.agg-phase-strategy", phases);
        configuration.setString("table.optimizer.distinct-agg.split.enabled", split);
        failAndRecover(split.equals("true") ? COUNTS.keptBy("IncrementalGroupAggregate") : COUNTS, configuration);
    }

    /** Both bundles hold all rows since the checkpoint, for nothing else ends one. Stock Flink comes to the same. */
    @ParameterizedTest
    @CsvSource({"STOCK, hashmap", "NATIVE, hashmap", "NATIVE, rocksdb incremental"})
    void bundleOfAJoinThatFailsIsThereOnce(Engine engine, String backend) throws Exception {
        Configuration configuration = configuration(backend);
        engine.select(configuration);
        inBundles(configuration);
        configuration.setString("table.exec.mini-batch.size", "1000000");
        configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofHours(1));
        try (Job job = new Job(JOINED_BY_UNIQUE_KEYS, Trial.failing(2, Duration.ofMillis(300)))) {
            JobClient client = job.submit(configuration, 2);
            job.trial.awaitHalf();
            LocalCluster.takeCheckpoint(client.getJobID());
            job.trial.release();
            await(client);
            assertThat(job.trial.restored()).isEqualTo(2);
            assertResult(JOINED_BY_UNIQUE_KEYS);
        }
    }

    private static void inBundles(Configuration configuration) {
        configuration.setString("table.exec.mini-batch.enabled", "true");
        configuration.setString("table.exec.mini-batch.size", "1000");
        configuration.setString("table.exec.mini-batch.allow-latency", "1 h");
        configuration.setString("streamfusion.top-n.mini-batch", "true");
    }

    private void failAndRecover(Query query, Configuration configuration) throws Exception {
        configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofMillis(50));
        try (Job job = new Job(query, Trial.failing(2))) {
            JobClient client = job.submit(configuration, 2);
            job.trial.awaitHalf();
            awaitCheckpoint(client);
            job.trial.release();
            await(client);
            assertThat(job.trial.restored()).isEqualTo(2);
            assertResult(query);
        }
    }

    /** Waits for a checkpoint that was begun and completed from now on. */
    private static void awaitCheckpoint(JobClient client) throws Exception {
        long before = LocalCluster.checkpoints(client.getJobID()).getCounts().getTotalNumberOfCheckpoints();
        while (true) {
            var latest = LocalCluster.checkpoints(client.getJobID()).getHistory().getLatestCompletedCheckpoint();
            if (latest != null && latest.getCheckpointId() > before + 1) {
                return;
            }
            Thread.sleep(5);
        }
    }

    /** Its tasks are told so while they work off batches and write checkpoints. */
    @ParameterizedTest
    @ValueSource(strings = {"rocksdb", "rocksdb incremental"})
    void jobThatIsCancelledInTheMidstOfItsRowsLeavesNothingBehind(String backend) throws Exception {
        Configuration configuration = configuration(backend);
        configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofMillis(20));
        try (Job job = new Job(JOINED, Trial.waiting(2))) {
            JobClient client = job.submit(configuration, 2);
            job.trial.awaitHalf();
            job.trial.release();
            LocalCluster.end(client);
            // it may have been faster
            assertThat(client.getJobStatus().get()).isIn(JobStatus.CANCELED, JobStatus.FINISHED);
        }
    }

    @Test
    void jobThatFailsBeforeAnyCheckpointStartsAnew() throws Exception {
        Configuration configuration = configuration("hashmap");
        configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofHours(1));
        try (Job job = new Job(Trial.failing(2))) {
            JobClient client = job.submit(configuration, 2);
            job.trial.release();
            await(client);
            assertThat(job.trial.attempts()).isEqualTo(2);
            assertThat(job.trial.restored()).isZero();
            assertEveryIdIsCountedOnce();
        }
    }

    // ------------------------------------------------------------------------------------------------------ savepoints

    @ParameterizedTest
    @CsvSource({
        "2, hashmap, CANONICAL, 3, hashmap",
        "3, hashmap, CANONICAL, 2, rocksdb",
        "2, rocksdb, CANONICAL, 3, hashmap",
        "3, rocksdb incremental, CANONICAL, 2, rocksdb",
        "2, hashmap, NATIVE, 3, hashmap",
        "3, rocksdb, NATIVE, 2, rocksdb incremental",
        "1, rocksdb incremental, NATIVE, 4, rocksdb"
    })
    void stoppedJobGoesOnAtAnotherParallelismAndUnderAnotherBackend(
            int before, String from, SavepointFormatType format, int after, String to) throws Exception {
        try (Job job = new Job(Trial.waiting(before))) {
            JobClient first = job.submit(configuration(from), before);
            job.trial.awaitHalf();
            String savepoint = stopWithSavepoint(first, format);
            await(first);
            int emitted = changes.size();
            assertThat(emitted).isPositive();

            job.trial.release();
            JobClient second = job.submit(restoredFrom(savepoint, configuration(to)), after);
            await(second);
            assertThat(job.trial.restored()).isEqualTo(after);
            assertEveryIdIsCountedOnce();
        }
    }

    @Test
    void savepointOfAJobThatGoesOnHoldsWhatWasThere() throws Exception {
        try (Job job = new Job(Trial.waiting(2))) {
            JobClient first = job.submit(configuration("hashmap"), 2);
            job.trial.awaitHalf();
            String savepoint = LocalCluster.answer(() -> first.triggerSavepoint(
                    directory.resolve("savepoints").toUri().toString(), SavepointFormatType.CANONICAL));
            job.trial.release();
            await(first);
            assertEveryIdIsCountedOnce();

            JobClient second = job.submit(restoredFrom(savepoint, configuration("hashmap")), 3);
            await(second);
            assertEveryIdIsCountedOnce();
        }
    }

    @ParameterizedTest
    @CsvSource({"STOCK, NATIVE", "NATIVE, STOCK"})
    void savepointOfTheOtherEngineIsRefusedWithTheRemedy(Engine from, Engine to) throws Exception {
        try (Job job = new Job(Trial.waiting(2))) {
            Configuration first = configuration("hashmap");
            from.select(first);
            JobClient stopped = job.submit(first, 2);
            job.trial.awaitHalf();
            String savepoint = stopWithSavepoint(stopped, SavepointFormatType.CANONICAL);
            await(stopped);

            job.trial.release();
            Configuration second = restoredFrom(savepoint, configuration("hashmap"));
            to.select(second);
            JobClient refused = job.submit(second, 2);
            assertThatThrownBy(() -> refused.getJobExecutionResult().get())
                    .hasStackTraceContaining("StreamFusion's native state, which operators of stock Flink cannot read")
                    .hasStackTraceContaining("restore with 'streamfusion.enabled' and the plan as they were");
        }
    }

    @ParameterizedTest
    @CsvSource({"2, hashmap, 3, 128", "3, rocksdb, 2, 200", "2, rocksdb incremental, 3, 32768"})
    void retainedCheckpointIsRescaledWithTheMaximumParallelismOfTheJob(
            int before, String backend, int after, int maxParallelism) throws Exception {
        Configuration configuration = configuration(backend);
        configuration.set(PipelineOptions.MAX_PARALLELISM, maxParallelism);
        configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofMillis(50));
        configuration.set(
                CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION,
                ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
        try (Job job = new Job(Trial.waiting(before))) {
            JobClient first = job.submit(configuration, before);
            job.trial.awaitHalf();
            awaitCheckpoint(first);
            first.cancel().get();
            first.getJobExecutionResult().handle((result, failure) -> null).get();

            job.trial.release();
            JobClient second = job.submit(restoredFrom(latestCheckpoint(first), configuration), after);
            await(second);
            assertThat(job.trial.restored()).isEqualTo(after);
            assertEveryIdIsCountedOnce();
        }
    }

    private String latestCheckpoint(JobClient client) throws Exception {
        try (Stream<Path> checkpoints = Files.list(directory.resolve("checkpoints").resolve(client.getJobID().toString()))) {
            return checkpoints
                    .filter(path -> Files.exists(path.resolve("_metadata")))
                    .max(Comparator.comparingLong(path -> Long.parseLong(path.getFileName().toString().substring(4))))
                    .orElseThrow()
                    .toUri()
                    .toString();
        }
    }
}
