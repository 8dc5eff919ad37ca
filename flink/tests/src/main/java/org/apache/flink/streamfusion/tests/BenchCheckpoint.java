package org.apache.flink.streamfusion.tests;

import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.runtime.checkpoint.AbstractCheckpointStats;
import org.apache.flink.runtime.checkpoint.CheckpointStatsSnapshot;
import org.apache.flink.runtime.checkpoint.CheckpointStatsStatus;
import org.apache.flink.runtime.checkpoint.TaskStateStats;
import org.apache.flink.streamfusion.tests.connector.MeteredSinkFactory;
import org.apache.flink.streamfusion.tests.connector.OutputMeter;
import org.apache.flink.streamfusion.tests.connector.UpdatesFactory;
import org.apache.flink.table.api.StatementSet;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * A GROUP BY over millions of keys that takes a checkpoint each second: stock Flink on its heap backend, then native.
 *
 * <p>Each side has a JVM of its own with the same heap: one MiniCluster, parallelism 1. The source fills the state with every
 * key once and then updates keys at random as fast as it can. After a warm-up the job is watched: results per second, how
 * long checkpoints take, and for how long at most nothing came out. Native state is in managed memory outside of the heap.
 *
 * <p>Arguments: keys (default 5,000,000), seconds watched (40), heap of each JVM in MiB (6144).
 */
public final class BenchCheckpoint {
    private static final String QUERY =
            "SELECT k, COUNT(*) AS n, SUM(v) AS s, AVG(v) AS a FROM updates GROUP BY k";

    /** Of the job's slot, outside of the heap. Only native state reserves from it, as much as it uses. */
    private static final MemorySize MANAGED_MEMORY = MemorySize.ofMebiBytes(2048);

    private static final Duration CHECKPOINT_INTERVAL = Duration.ofSeconds(1);
    private static final Duration WARM_UP = Duration.ofSeconds(10);
    private static final Duration FILL_LIMIT = Duration.ofSeconds(120);
    /** For all that a side does beside being watched. */
    private static final Duration SIDE_LIMIT = Duration.ofSeconds(240);

    private static final String ONE_SIDE = "side";
    private static final double NANOS_PER_MILLI = 1e6;
    private static final double NANOS_PER_SECOND = 1e9;

    private BenchCheckpoint() {}

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0 && arguments[0].equals(ONE_SIDE)) {
            side(arguments);
        }
        long keys = arguments.length > 0 ? Long.parseLong(arguments[0]) : 5_000_000L;
        int seconds = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 40;
        int heapMib = arguments.length > 2 ? Integer.parseInt(arguments[2]) : 6144;
        System.out.printf(
                Locale.ROOT,
                "%,d keys, checkpoint interval %d s, %d s watched, parallelism 1, heap %,d MiB, managed memory %s%n%n",
                keys, CHECKPOINT_INTERVAL.toSeconds(), seconds, heapMib, MANAGED_MEMORY.toHumanReadableString());
        Map<Engine, Side> sides = new EnumMap<>(Engine.class);
        for (Engine engine : List.of(Engine.STOCK, Engine.NATIVE)) {
            List<String> side = List.of(ONE_SIDE, engine.name(), Long.toString(keys), Integer.toString(seconds));
            sides.put(engine, Side.ofLine(BenchJvm.fork(BenchCheckpoint.class, heapMib, SIDE_LIMIT.plusSeconds(seconds), side)));
        }
        Side stock = sides.get(Engine.STOCK);
        Side accelerated = sides.get(Engine.NATIVE);
        print(stock, accelerated);
        System.exit(accelerated.isNative() ? 0 : 1);
    }

    /** What the JVM of a side runs. */
    private static void side(String[] arguments) {
        Path checkpoints = Path.of(System.getProperty("java.io.tmpdir"), "checkpoints");
        BenchJvm.report(() -> measure(
                        Engine.valueOf(arguments[1]), Long.parseLong(arguments[2]), Integer.parseInt(arguments[3]), checkpoints)
                .toLine());
    }

    /**
     * What one side did while it was watched.
     *
     * @param isNative whether GROUP BY ran natively
     * @param rowsPerSecond results, which are as many as input rows
     * @param longestGapMillis longest time without an output
     * @param stalledMillis time in gaps of at least 100 ms
     * @param checkpoints checkpoints completed
     * @param medianMillis their duration from trigger to completion
     * @param maxMillis the longest of them
     * @param maxSyncMillis the longest time that a task thread spent in one
     * @param mebibytes size of the last one
     * @param residentMib highest resident memory of the JVM since its start
     */
    private record Side(
            boolean isNative,
            double rowsPerSecond,
            double longestGapMillis,
            double stalledMillis,
            int checkpoints,
            long medianMillis,
            long maxMillis,
            long maxSyncMillis,
            long mebibytes,
            long residentMib) {

        String toLine() {
            return String.join(
                    " ",
                    Boolean.toString(isNative),
                    Double.toString(rowsPerSecond),
                    Double.toString(longestGapMillis),
                    Double.toString(stalledMillis),
                    Integer.toString(checkpoints),
                    Long.toString(medianMillis),
                    Long.toString(maxMillis),
                    Long.toString(maxSyncMillis),
                    Long.toString(mebibytes),
                    Long.toString(residentMib));
        }

        static Side ofLine(String line) {
            String[] fields = line.split(" ");
            return new Side(
                    Boolean.parseBoolean(fields[0]),
                    Double.parseDouble(fields[1]),
                    Double.parseDouble(fields[2]),
                    Double.parseDouble(fields[3]),
                    Integer.parseInt(fields[4]),
                    Long.parseLong(fields[5]),
                    Long.parseLong(fields[6]),
                    Long.parseLong(fields[7]),
                    Long.parseLong(fields[8]),
                    Long.parseLong(fields[9]));
        }
    }

    private static void print(Side stock, Side accelerated) {
        System.out.println("| | stock | native | native / stock |");
        System.out.println("| --- | ---: | ---: | ---: |");
        line("rows/s", stock.rowsPerSecond(), accelerated.rowsPerSecond());
        line("longest gap between two outputs, ms", stock.longestGapMillis(), accelerated.longestGapMillis());
        line("time in gaps of 100 ms and more, ms", stock.stalledMillis(), accelerated.stalledMillis());
        line("checkpoints completed", stock.checkpoints(), accelerated.checkpoints());
        line("checkpoint, median ms", stock.medianMillis(), accelerated.medianMillis());
        line("checkpoint, longest ms", stock.maxMillis(), accelerated.maxMillis());
        line("of it on a task thread, longest ms", stock.maxSyncMillis(), accelerated.maxSyncMillis());
        line("checkpoint, MiB", stock.mebibytes(), accelerated.mebibytes());
        line("peak resident memory, MiB", stock.residentMib(), accelerated.residentMib());
        if (!accelerated.isNative()) {
            System.out.println("\nGROUP BY did not run natively: both sides are stock Flink.");
        }
    }

    private static void line(String title, double stock, double accelerated) {
        System.out.printf(
                Locale.ROOT, "| %s | %,.0f | %,.0f | %.2f |%n", title, stock, accelerated, accelerated / stock);
    }

    private static Side measure(Engine engine, long keys, int seconds, Path checkpoints) throws Exception {
        LocalCluster.useManagedMemory(MANAGED_MEMORY);
        StatementSet job = job(engine, keys, checkpoints);
        boolean isNative = PlanReport.parse(job.explain()).nativeNodes().stream()
                .anyMatch(node -> node.kind().equals("GroupAggregate"));
        JobClient client = job.execute().getJobClient().orElseThrow();

        long limit = System.nanoTime() + FILL_LIMIT.toNanos();
        while (OutputMeter.read().results() < keys) {
            if (System.nanoTime() > limit) {
                throw new IOException("The state was not filled in " + FILL_LIMIT);
            }
            Thread.sleep(100);
        }
        Thread.sleep(WARM_UP.toMillis());

        OutputMeter.start();
        long start = System.nanoTime();
        long startMillis = System.currentTimeMillis();
        long before = OutputMeter.read().results();
        Thread.sleep(Duration.ofSeconds(seconds).toMillis());
        OutputMeter.Reading reading = OutputMeter.read();
        double elapsed = (System.nanoTime() - start) / NANOS_PER_SECOND;

        List<AbstractCheckpointStats> completed = completed(client.getJobID(), startMillis);
        client.cancel().get();
        return side(isNative, (reading.results() - before) / elapsed, reading, completed);
    }

    private static Side side(
            boolean isNative, double rowsPerSecond, OutputMeter.Reading reading, List<AbstractCheckpointStats> completed)
            throws IOException {
        List<Long> durations =
                completed.stream().map(AbstractCheckpointStats::getEndToEndDuration).sorted().toList();
        if (durations.isEmpty()) {
            throw new IOException("No checkpoint was completed while the job was watched");
        }
        long sync = completed.stream()
                .flatMap(checkpoint -> checkpoint.getAllTaskStateStats().stream())
                .map(TaskStateStats::getSummaryStats)
                .mapToLong(summary -> summary.getSyncCheckpointDurationStats().getMaximum())
                .max()
                .orElseThrow();
        return new Side(
                isNative,
                rowsPerSecond,
                reading.longestGapNanos() / NANOS_PER_MILLI,
                reading.stalledNanos() / NANOS_PER_MILLI,
                durations.size(),
                durations.get(durations.size() / 2),
                durations.get(durations.size() - 1),
                sync,
                completed.get(completed.size() - 1).getStateSize() >> 20,
                BenchJvm.peakResidentMib());
    }

    /** Checkpoints that were completed since, in the order of their ids. */
    private static List<AbstractCheckpointStats> completed(JobID job, long sinceMillis) throws Exception {
        CheckpointStatsSnapshot stats = LocalCluster.checkpoints(job);
        return stats.getHistory().getCheckpoints().stream()
                .filter(checkpoint -> checkpoint.getStatus() == CheckpointStatsStatus.COMPLETED)
                .filter(checkpoint -> checkpoint.getTriggerTimestamp() + checkpoint.getEndToEndDuration() >= sinceMillis)
                .sorted(Comparator.comparingLong(AbstractCheckpointStats::getCheckpointId))
                .toList();
    }

    private static StatementSet job(Engine engine, long keys, Path checkpoints) {
        Configuration configuration = new Configuration();
        engine.select(configuration);
        configuration.set(StateBackendOptions.STATE_BACKEND, "hashmap");
        configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, CHECKPOINT_INTERVAL);
        configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, checkpoints.toUri().toString());
        StreamTableEnvironment environment = LocalCluster.tableEnvironment(configuration, 1);
        environment.executeSql("CREATE TABLE updates (" + UpdatesFactory.COLUMNS + ") WITH ('connector'='"
                + UpdatesFactory.IDENTIFIER + "', 'keys'='" + keys + "')");
        environment.executeSql("CREATE TABLE results ("
                + SelectSink.of(environment.sqlQuery(QUERY)).columns() + ") WITH ('connector'='"
                + MeteredSinkFactory.IDENTIFIER + "')");
        return environment.createStatementSet().addInsertSql("INSERT INTO results " + QUERY);
    }
}
