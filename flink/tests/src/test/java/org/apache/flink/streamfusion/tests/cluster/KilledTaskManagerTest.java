package org.apache.flink.streamfusion.tests.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * A cluster of real processes out of a downloaded distribution of Flink with our jar in {@code lib/} and nothing else done.
 *
 * <p>The SQL client submits a job with a checkpoint each second. One TaskManager after the other is killed, which takes state
 * of the job along, and replaced. Every id of the source must be in the result once. There being two processes, batches are written to the network.
 */
class KilledTaskManagerTest {
    private static final long IDS = 60_000;
    private static final long GROUPS = 97;

    private static final String INSERT =
            "INSERT INTO counts SELECT MOD(id, " + GROUPS + ") AS k, COUNT(*) AS n, SUM(id) AS s, MAX(id) AS m "
                    + "FROM ids GROUP BY MOD(id, " + GROUPS + ")";

    private static final Pattern JOB = Pattern.compile("Job ID: ([0-9a-f]{32})");
    /** A row that the print sink wrote in full: a process that is killed may leave half of one. */
    private static final Pattern ROW = Pattern.compile("(?:\\d+> )?(?:\\+I|\\+U)\\[(\\d+), (\\d+), (\\d+), (\\d+)]");

    private record Count(long rows, long sum, long max) {}

    @Test
    @Timeout(value = 120, unit = TimeUnit.SECONDS)
    void every_id_is_counted_once_when_task_managers_are_killed(@TempDir Path directory) throws Exception {
        Path distribution = existing("streamfusion.test.flink-home");
        FlinkHome home = FlinkHome.create(
                directory.resolve("flink"),
                distribution,
                List.of(existing("streamfusion.test.one-jar")),
                List.of(existing("streamfusion.test.sql-gateway")));
        int restPort = freePort();
        home.configure(distribution, configuration(home, restPort, freePort()));
        Path release = directory.resolve("release");

        try (FlinkProcesses processes = new FlinkProcesses(home)) {
            try {
                runAndKill(home, processes, new RestClient(restPort), release);
            } catch (Throwable e) {
                throw new AssertionError(e.getMessage() + processes.lastWords(), e);
            }
        }
    }

    private static void runAndKill(FlinkHome home, FlinkProcesses processes, RestClient rest, Path release)
            throws Exception {
        processes.start("jobmanager", "jobmanager.sh", "start-foreground");
        List<FlinkProcesses.Running> taskManagers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            taskManagers.add(processes.start("taskmanager-" + i, "taskmanager.sh", "start-foreground"));
        }
        // starts meanwhile, and tries until the JobManager is there
        String submission = submit(home, processes, release);
        Matcher submitted = JOB.matcher(submission);
        assertThat(submitted.find()).as(submission).isTrue();
        assertThat(submission).contains("== StreamFusion ==").containsPattern("native, stage \\d+ +GroupAggregate");
        String job = "/jobs/" + submitted.group(1);

        rest.await(job + "/checkpoints", checkpoints -> completed(checkpoints) >= 2);
        for (int i = 0; i < taskManagers.size(); i++) {
            int restored = restored(rest.get(job + "/checkpoints"));
            taskManagers.get(i).kill();
            processes.start("replacement-" + i, "taskmanager.sh", "start-foreground");
            rest.await(
                    job + "/checkpoints",
                    checkpoints -> restored(checkpoints) > restored
                            && checkpoints.at("/latest/completed/id").asLong() > checkpoints.at("/latest/restored/id").asLong());
        }
        assertThat(batchesByHandle(rest, job))
                .as("batches that did not go from process to process as bytes")
                .isZero();
        Files.createFile(release);
        JsonNode end = rest.await(job, answer -> !answer.path("end-time").asText().equals("-1"));
        assertThat(end.path("state").asText()).isEqualTo("FINISHED");

        assertThat(rest.get(job + "/plan").findValuesAsText("description"))
                .as("what Flink says it runs")
                .anyMatch(description -> description.contains("Native(GroupAggregate("));
        assertThat(finalCounts(processes)).isEqualTo(expected());
    }

    /** Runs the SQL client on a script that explains and submits the job; what it printed. */
    private static String submit(FlinkHome home, FlinkProcesses processes, Path release) throws Exception {
        Path script = Files.writeString(
                home.root().resolve("job.sql"),
                String.join(
                        ";\n",
                        "CREATE TABLE ids (id BIGINT) WITH ('connector' = 'test-paced-ids', 'rows' = '" + IDS
                                + "', 'release-file' = '" + release + "')",
                        "CREATE TABLE counts (k BIGINT, n BIGINT, s BIGINT, m BIGINT) WITH ('connector' = 'print')",
                        "EXPLAIN " + INSERT,
                        INSERT,
                        ""));
        FlinkProcesses.Running client = processes.start(
                "sql-client",
                "sql-client.sh",
                "--file", script.toString(),
                "--history", home.root().resolve("tmp/history").toString());
        client.process().waitFor();
        return Files.readString(client.output());
    }

    private static Map<String, String> configuration(FlinkHome home, int restPort, int rpcPort) {
        Map<String, String> options = new LinkedHashMap<>();
        options.put("jobmanager.bind-host", "localhost");
        options.put("jobmanager.rpc.address", "localhost");
        options.put("jobmanager.rpc.port", Integer.toString(rpcPort));
        options.put("jobmanager.memory.process.size", "900m");
        options.put("rest.address", "localhost");
        options.put("rest.bind-address", "localhost");
        options.put("rest.port", Integer.toString(restPort));
        options.put("rest.retry.delay", "500");
        options.put("taskmanager.bind-host", "localhost");
        options.put("taskmanager.host", "localhost");
        options.put("taskmanager.numberOfTaskSlots", "1");
        options.put("pekko.startup-timeout", "60 s"); // other tests keep the machine busy
        options.put("taskmanager.memory.process.size", "1100m");
        options.put("parallelism.default", "2");
        options.put("execution.checkpointing.interval", "1 s");
        options.put("execution.checkpointing.dir", home.root().resolve("checkpoints").toUri().toString());
        options.put("restart-strategy.type", "fixed-delay");
        options.put("restart-strategy.fixed-delay.attempts", "100");
        options.put("restart-strategy.fixed-delay.delay", "200 ms");
        // A TaskManager that does not answer is given up after two of these.
        options.put("heartbeat.interval", "1000");
        options.put("heartbeat.timeout", "20000");
        options.put("metrics.fetcher.update-interval", "500");
        return options;
    }

    /** How many batches the tasks that run have handed over in memory, as soon as metrics of one of them are there. */
    private static long batchesByHandle(RestClient rest, String job) throws IOException, InterruptedException {
        String counter = "nativeBatchesByHandle";
        boolean counted = false;
        long batches = 0;
        while (!counted) {
            for (JsonNode vertex : rest.get(job).path("vertices")) {
                String metrics = job + "/vertices/" + vertex.path("id").asText() + "/subtasks/metrics";
                for (JsonNode metric : rest.get(metrics)) {
                    String name = metric.path("id").asText();
                    if (name.endsWith(counter)) {
                        String value = "?agg=sum&get=" + URLEncoder.encode(name, StandardCharsets.UTF_8);
                        for (JsonNode sum : rest.get(metrics + value)) {
                            counted = true;
                            batches += sum.path("sum").asLong();
                        }
                    }
                }
            }
            Thread.sleep(100);
        }
        return batches;
    }

    private static long completed(JsonNode checkpoints) {
        return checkpoints.at("/counts/completed").asLong();
    }

    private static int restored(JsonNode checkpoints) {
        return checkpoints.at("/counts/restored").asInt();
    }

    /**
     * The last count of each group. Counts only grow, so the last is the highest; an id that was counted twice, even for a
     * while, would show in it.
     */
    private static Map<Long, Count> finalCounts(FlinkProcesses processes) throws IOException {
        Map<Long, Count> counts = new HashMap<>();
        for (FlinkProcesses.Running process : processes.all()) {
            try (Stream<String> lines = Files.lines(process.output())) {
                lines.map(ROW::matcher)
                        .filter(Matcher::matches)
                        .forEach(row -> counts.merge(
                                Long.valueOf(row.group(1)),
                                new Count(number(row, 2), number(row, 3), number(row, 4)),
                                (one, other) -> one.rows() > other.rows() ? one : other));
            }
        }
        return counts;
    }

    private static long number(Matcher row, int group) {
        return Long.parseLong(row.group(group));
    }

    private static Map<Long, Count> expected() {
        Map<Long, Count> counts = new HashMap<>();
        for (long id = 0; id < IDS; id++) {
            counts.merge(
                    id % GROUPS,
                    new Count(1, id, id),
                    (count, one) -> new Count(count.rows() + 1, count.sum() + one.sum(), one.max()));
        }
        return counts;
    }

    private static Path existing(String property) {
        String path = System.getProperty(property, "");
        assumeTrue(!path.isEmpty() && Files.exists(Path.of(path)), () -> property + " is not there: " + path);
        return Path.of(path);
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }
}
