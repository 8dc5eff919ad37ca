package org.apache.flink.streamfusion.nexmark;

import org.apache.flink.configuration.MemorySize;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streamfusion.tests.BenchJvm;
import org.apache.flink.streamfusion.tests.Engine;
import org.apache.flink.streamfusion.tests.LocalCluster;
import org.apache.flink.streamfusion.tests.PlanReport;
import org.apache.flink.table.api.StatementSet;

import com.sun.management.OperatingSystemMXBean;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * One query on one engine, in a JVM of its own: time, memory, and what came out.
 *
 * <p>The first run, which is not counted, also makes the events that are replayed.
 *
 * <p>Arguments: engine, query, and the setup as JSON.
 */
public final class BenchSide {
    /** Of each slot. Native state and RocksDB reserve from it, as much as they use. */
    private static final MemorySize MANAGED_MEMORY = MemorySize.ofMebiBytes(2048);

    private static final double NANOS_PER_SECOND = 1e9;

    private BenchSide() {}

    /**
     * What was measured.
     *
     * @param seconds of all counted runs
     * @param cpuSeconds that all threads of the JVM spent in each of them, which depends less on what else the machine does
     * @param residentMib peak of the JVM over all of them
     * @param nodes between sources and sinks
     * @param nativeNodes how many of them run natively
     * @param stockNodes the others
     * @param digest of the results
     */
    record Measured(
            List<Double> seconds,
            List<Double> cpuSeconds,
            long residentMib,
            int nodes,
            int nativeNodes,
            List<String> stockNodes,
            String digest) {

        /** The median of all counted runs. */
        double medianSeconds() {
            return median(seconds);
        }

        double medianCpuSeconds() {
            return median(cpuSeconds);
        }

        private static double median(List<Double> values) {
            return values.stream().sorted().skip(values.size() / 2).findFirst().orElseThrow();
        }
    }

    public static void main(String[] arguments) {
        BenchJvm.report(() -> {
            ObjectMapper json = new ObjectMapper();
            BenchSetup setup = json.readValue(arguments[2], BenchSetup.class);
            return json.writeValueAsString(measure(Engine.valueOf(arguments[0]), arguments[1], setup));
        });
    }

    private static Measured measure(Engine engine, String name, BenchSetup setup) throws Exception {
        LocalCluster.useManagedMemory(MANAGED_MEMORY);
        NexmarkQuery query = NexmarkQuery.named(name);
        List<PlanReport.Node> nodes = PlanReport.parse(job(query, engine, setup).explain()).nodes().stream()
                .filter(node -> !node.isEndOfPlan())
                .toList();
        List<Double> seconds = new ArrayList<>();
        List<Double> cpuSeconds = new ArrayList<>();
        for (int run = -1; run < setup.runs(); run++) {
            Time time = time(query, engine, setup);
            if (run >= 0) {
                seconds.add(time.seconds());
                cpuSeconds.add(time.cpuSeconds());
            }
        }
        long residentMib = BenchJvm.peakResidentMib();
        List<String> stock = nodes.stream().filter(node -> !node.isNative()).map(PlanReport.Node::kind).toList();
        String digest = digest(NexmarkQuery.toCompare(name), engine, setup).toString();
        return new Measured(seconds, cpuSeconds, residentMib, nodes.size(), nodes.size() - stock.size(), stock, digest);
    }

    private static StatementSet job(NexmarkQuery query, Engine engine, BenchSetup setup) {
        return query.create(setup.environment(engine));
    }

    private record Time(double seconds, double cpuSeconds) {}

    private static Time time(NexmarkQuery query, Engine engine, BenchSetup setup) throws Exception {
        Path folder = Files.createTempDirectory("results");
        try {
            StatementSet job = query.endsNowhere()
                    ? job(query, engine, setup)
                    : query.create(setup.environment(engine), Map.of("path", folder.toUri().toString()));
            System.gc();
            long start = System.nanoTime();
            long cpuStart = cpuNanos();
            job.execute().await();
            return new Time((System.nanoTime() - start) / NANOS_PER_SECOND, (cpuNanos() - cpuStart) / NANOS_PER_SECOND);
        } finally {
            BenchJvm.delete(folder);
        }
    }

    private static long cpuNanos() {
        return ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getProcessCpuTime();
    }

    private static Digest digest(NexmarkQuery query, Engine engine, BenchSetup setup) throws Exception {
        if (query.endsNowhere()) {
            Map<String, String> sink = Map.of("connector", DigestTableFactory.IDENTIFIER, "id", query.name());
            query.create(setup.environmentToCompare(engine), sink).execute().await();
            return Digest.take(query.name());
        }
        Path folder = Files.createTempDirectory("results");
        try {
            Map<String, String> sink = Map.of("path", folder.toUri().toString());
            query.create(setup.environmentToCompare(engine), sink).execute().await();
            return ofFiles(folder);
        } finally {
            BenchJvm.delete(folder);
        }
    }

    /** Of all lines of all files, each with the folder that it is in. */
    static Digest ofFiles(Path folder) throws IOException {
        try (Stream<Path> files = Files.walk(folder)) {
            return files.filter(Files::isRegularFile)
                    .map(file -> ofFile(folder.relativize(file.getParent()).toString(), file))
                    .reduce(Digest.EMPTY, Digest::plus);
        }
    }

    private static Digest ofFile(String partition, Path file) {
        try (Stream<String> lines = Files.lines(file, StandardCharsets.UTF_8)) {
            return lines.map(line -> Digest.EMPTY.plus(1, partition + ' ' + line)).reduce(Digest.EMPTY, Digest::plus);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
