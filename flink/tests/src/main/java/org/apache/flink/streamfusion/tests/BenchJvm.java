package org.apache.flink.streamfusion.tests;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** A JVM of its own for one side of a benchmark, so that neither engine gains or suffers by the other. */
public final class BenchJvm {
    private static final String RESULT = "RESULT ";
    private static final int KIB_PER_MIB = 1024;

    private BenchJvm() {}

    /** What the main method of a side measures. */
    public interface Measurement {
        /** Returns one line. */
        String run() throws Exception;
    }

    /** Runs a main class in a JVM like this one, with a heap of its own, and returns what it has told by {@link #report}. */
    public static String fork(Class<?> main, int heapMib, Duration limit, List<String> arguments)
            throws IOException, InterruptedException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        ManagementFactory.getRuntimeMXBean().getInputArguments().stream()
                .filter(argument -> !argument.startsWith("-Xm"))
                .forEach(command::add);
        command.add("-Xmx" + heapMib + "m");
        // Flink leaves files in the temporary directory of a JVM that is killed.
        Path directory = Files.createTempDirectory("bench");
        command.add("-Djava.io.tmpdir=" + directory);
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), main.getName()));
        command.addAll(arguments);
        Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        CompletableFuture.delayedExecutor(limit.toSeconds(), TimeUnit.SECONDS).execute(process::destroyForcibly);
        try (BufferedReader lines =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            String last = "";
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                last = line;
            }
            if (process.waitFor() != 0 || !last.startsWith(RESULT)) {
                throw new IOException("The JVM of " + main.getSimpleName() + " " + arguments + " failed: " + last);
            }
            return last.substring(RESULT.length());
        } finally {
            process.destroyForcibly().waitFor();
            delete(directory);
        }
    }

    /** To be called by the main method of a side: measures, tells the result to whoever started this JVM, and ends it. */
    public static void report(Measurement measurement) {
        int exitCode = 0;
        try {
            System.out.println(RESULT + measurement.run());
        } catch (Exception e) {
            e.printStackTrace();
            exitCode = 1;
        }
        // The cluster's threads would keep the JVM alive.
        System.exit(exitCode);
    }

    /** The highest resident memory of this JVM since its start. */
    public static long peakResidentMib() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM:")) {
                return Long.parseLong(line.replaceAll("[^0-9]", "")) / KIB_PER_MIB;
            }
        }
        throw new IOException("The system does not tell the resident memory");
    }

    /** Deletes a folder and what is in it. */
    public static void delete(Path directory) throws IOException {
        try (Stream<Path> files = Files.walk(directory)) {
            files.sorted(Comparator.reverseOrder()).forEach(file -> {
                try {
                    Files.deleteIfExists(file);
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
            });
        }
    }
}
