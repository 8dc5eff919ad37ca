package org.apache.flink.streamfusion.tests;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streamfusion.tests.connector.Change;
import org.apache.flink.streamfusion.tests.connector.ParityCollectFactory;
import org.apache.flink.streamfusion.tests.connector.Trial;
import org.apache.flink.streamfusion.tests.connector.TrialIdsFactory;
import org.apache.flink.table.api.CompiledPlan;
import org.apache.flink.table.api.PlanReference;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import java.util.stream.Stream;

/**
 * Jobs under back-pressure that fail in the middle and go on at another parallelism: what was on its way between two stages arrives
 * once. The sink is slow until it is told to fail, so that the buffers of the exchange are full when a barrier comes.
 */
@RequiresNative
@Timeout(180)
class ShuffleRecoveryTest {
    private static final long IDS = 24_000;
    private static final long GROUPS = 97;

    @TempDir private Path directory;

    /** The table that all jobs of a test write. */
    private final MaterializedTable table = MaterializedTable.ofUpserts();

    private volatile SinkMood mood = SinkMood.SLOW;
    private long changes;
    private String plan;
    private JobClient client;
    private final Trial trial = Trial.waiting(2);
    private final String sinkId = ParityCollectFactory.register(this::collect);

    private enum SinkMood {
        /** So slow that only an unaligned barrier gets through in time. */
        SLOW,
        /** Slower than the sources. */
        BUSY,
        FAILS,
        QUICK
    }

    private void collect(Change change) {
        switch (mood) {
            case SLOW -> pause(5);
            case BUSY -> pause(changes++ % 4 == 0 ? 1 : 0);
            case FAILS -> throw new IllegalStateException("The test wants it so");
            case QUICK -> { }
        }
        table.apply(change);
    }

    private static void pause(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            // Flink interrupts a task to cancel it, and looks at the flag itself.
            Thread.currentThread().interrupt();
        }
    }

    @AfterEach
    void release() throws Exception {
        mood = SinkMood.QUICK;
        LocalCluster.end(client);
        ParityCollectFactory.unregister(sinkId);
        trial.close();
        Parity.checkReleased();
    }

    private Configuration configuration(String backend, Checkpoints checkpoints) {
        Configuration configuration = new Configuration();
        Engine.NATIVE.select(configuration);
        configuration.set(StateBackendOptions.STATE_BACKEND, backend);
        configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofMillis(100));
        configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, checkpoints().toUri().toString());
        configuration.set(CheckpointingOptions.ENABLE_UNALIGNED, checkpoints != Checkpoints.ALIGNED);
        if (checkpoints == Checkpoints.UNALIGNED_AFTER_A_TIMEOUT) {
            configuration.set(CheckpointingOptions.ALIGNED_CHECKPOINT_TIMEOUT, Duration.ofMillis(50));
        }
        configuration.set(
                CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION,
                ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY, "none");
        // many small records, so that some are on their way at every moment
        configuration.setString("streamfusion.batch.max-rows", "200");
        configuration.setString("streamfusion.batch.latency", "5 ms");
        return configuration;
    }

    private enum Checkpoints {
        ALIGNED,
        UNALIGNED,
        UNALIGNED_AFTER_A_TIMEOUT
    }

    private Path checkpoints() {
        return directory.resolve("checkpoints");
    }

    private JobClient submit(Configuration configuration, int parallelism) throws Exception {
        StreamTableEnvironment environment = LocalCluster.tableEnvironment(configuration, parallelism);
        environment.executeSql("CREATE TABLE ids (id BIGINT) WITH ('connector'='%s', 'rows'='%d', 'trial'='%s')"
                .formatted(TrialIdsFactory.IDENTIFIER, IDS, trial.name()));
        environment.executeSql(new ParitySink(
                        "counts", "k INT, n BIGINT, s BIGINT, PRIMARY KEY (k) NOT ENFORCED", ParitySink.UPSERT_KINDS)
                .createTable(sinkId));
        if (plan == null) {
            plan = environment
                    .compilePlanSql("INSERT INTO counts SELECT MOD(id, %1$d), COUNT(*), SUM(id) FROM ids GROUP BY MOD(id, %1$d)"
                            .formatted(GROUPS))
                    .asJsonString();
        }
        CompiledPlan compiled = environment.loadPlan(PlanReference.fromJsonString(plan));
        PlanReport report = PlanReport.parse(compiled.explain());
        assertThat(report.nativeNodes()).as(report.decisions()).extracting(PlanReport.Node::kind)
                .containsExactly("Calc", "Exchange", "GroupAggregate");
        client = compiled.execute().getJobClient().orElseThrow();
        return client;
    }

    /** Lets the job fail as soon as a checkpoint has completed, with something on its way if that is asked for. Returns the checkpoint. */
    private Path failAfterACheckpoint(JobClient client, boolean withFragments) throws Exception {
        while (true) {
            var latest = LocalCluster.checkpoints(client.getJobID()).getHistory().getLatestCompletedCheckpoint();
            if (latest != null && (!withFragments || latest.getPersistedData() > 0)) {
                break;
            }
            assertThat(client.getJobStatus().get()).isIn(JobStatus.RUNNING, JobStatus.CREATED, JobStatus.INITIALIZING);
            Thread.sleep(5);
        }
        mood = SinkMood.FAILS;
        trial.release(); // so that another row comes that fails
        client.getJobExecutionResult().handle((result, failure) -> failure).get();
        assertThat(client.getJobStatus().get()).isEqualTo(JobStatus.FAILED);
        mood = SinkMood.QUICK;
        return latestCheckpoint(client);
    }

    private Path latestCheckpoint(JobClient client) throws Exception {
        try (Stream<Path> found = Files.list(checkpoints().resolve(client.getJobID().toString()))) {
            return found.filter(path -> Files.exists(path.resolve("_metadata")))
                    .max(Comparator.comparingLong(path -> Long.parseLong(path.getFileName().toString().substring(4))))
                    .orElseThrow();
        }
    }

    private void goOn(Configuration configuration, Path checkpoint, int parallelism) throws Exception {
        configuration.set(StateRecoveryOptions.SAVEPOINT_PATH, checkpoint.toUri().toString());
        JobClient client = submit(configuration, parallelism);
        client.getJobExecutionResult().get();
        assertThat(client.getJobStatus().get()).isEqualTo(JobStatus.FINISHED);
        assertThat(trial.restored()).isEqualTo(parallelism);
        assertEveryIdIsCountedOnce();
    }

    /** A row that is lost or comes twice is in a count for good: later rows of its key add to what is there. */
    private void assertEveryIdIsCountedOnce() {
        List<String> expected = LongStream.range(0, GROUPS)
                .mapToObj(key -> LongStream.iterate(key, id -> id < IDS, id -> id + GROUPS).summaryStatistics())
                .map(ids -> "(%d, %d, %d)".formatted(ids.getMin(), ids.getCount(), ids.getSum()))
                .sorted()
                .collect(Collectors.toList());
        assertThat(table.rows()).isEqualTo(expected);
    }

    @ParameterizedTest
    @CsvSource({
        "2, 3, hashmap, UNALIGNED, 128",
        "3, 2, hashmap, UNALIGNED, 128",
        "2, 2, rocksdb, UNALIGNED, 200",
        "2, 3, rocksdb, UNALIGNED_AFTER_A_TIMEOUT, 200",
        "3, 2, hashmap, UNALIGNED_AFTER_A_TIMEOUT, 128"
    })
    void recordsThatACheckpointHasStoredArriveOnce(
            int before, int after, String backend, Checkpoints checkpoints, int maxParallelism) throws Exception {
        Configuration configuration = configuration(backend, checkpoints);
        configuration.set(PipelineOptions.MAX_PARALLELISM, maxParallelism);
        Path checkpoint = failAfterACheckpoint(submit(configuration, before), true);
        assertThat(ChannelStates.hold(ChannelStates.of(checkpoint), ChannelStates.FRAGMENT)).isTrue();
        goOn(configuration, checkpoint, after);
    }

    @Test
    void aJobWithAlignedCheckpointsTakesWhatAnUnalignedOneHasStored() throws Exception {
        Path checkpoint = failAfterACheckpoint(submit(configuration("hashmap", Checkpoints.UNALIGNED), 2), true);
        assertThat(ChannelStates.hold(ChannelStates.of(checkpoint), ChannelStates.FRAGMENT)).isTrue();
        goOn(configuration("hashmap", Checkpoints.ALIGNED), checkpoint, 3);
    }

    @Test
    void anAlignedCheckpointUnderBackPressureHoldsNoBatches() throws Exception {
        mood = SinkMood.BUSY;
        Configuration configuration = configuration("hashmap", Checkpoints.ALIGNED);
        Path checkpoint = failAfterACheckpoint(submit(configuration, 2), false);
        List<String> channels = ChannelStates.of(checkpoint);
        assertThat(ChannelStates.hold(channels, ChannelStates.BATCH)).isFalse();
        assertThat(channels).isEmpty();
        goOn(configuration, checkpoint, 3);
    }
}
