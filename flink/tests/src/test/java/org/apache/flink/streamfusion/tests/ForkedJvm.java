package org.apache.flink.streamfusion.tests;

import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;

/** A JVM of its own for tests about what is on the class path. */
final class ForkedJvm {
    private static final long TIMEOUT_SECONDS = 120;

    private final List<String> classPath;
    private final List<String> properties = new ArrayList<>();

    private ForkedJvm(List<String> classPath) {
        this.classPath = classPath;
    }

    /** What a JVM printed, and its exit code. */
    record Outcome(int exitCode, String out, String err) {}

    /** Starts from the class path of this JVM. */
    static ForkedJvm withThisClassPath() {
        String own = System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
        return new ForkedJvm(new ArrayList<>(Arrays.asList(own.split(File.pathSeparator))));
    }

    /** Removes the elements of the class path that the test is true for. */
    ForkedJvm without(Predicate<String> element) {
        classPath.removeIf(element);
        return this;
    }

    /** Puts a jar before everything else. */
    ForkedJvm first(Path jar) {
        classPath.add(0, jar.toString());
        return this;
    }

    /** Puts a jar behind everything else. */
    ForkedJvm last(Path jar) {
        classPath.add(jar.toString());
        return this;
    }

    ForkedJvm property(String key, String value) {
        properties.add("-D" + key + "=" + value);
        return this;
    }

    Outcome run(Class<?> main) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        ManagementFactory.getRuntimeMXBean().getInputArguments().stream()
                .filter(argument -> argument.startsWith("--add-"))
                .forEach(command::add);
        command.addAll(List.of("-Xmx700m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"));
        // Test jars of Flink bring a configuration that logs nothing.
        command.add("-Dlog4j2.configurationFile=classpath:log4j2.properties");
        command.addAll(properties);
        command.addAll(List.of("-cp", String.join(File.pathSeparator, classPath), main.getName()));
        Path out = Files.createTempFile("forked", ".out");
        Path err = Files.createTempFile("forked", ".err");
        try {
            Process process = new ProcessBuilder(command)
                    .redirectOutput(out.toFile())
                    .redirectError(err.toFile())
                    .start();
            if (!process.waitFor(TIMEOUT_SECONDS, TimeUnit.SECONDS)) {
                process.destroyForcibly();
                throw new IOException("The forked JVM did not end in " + TIMEOUT_SECONDS + " s");
            }
            return new Outcome(process.exitValue(), read(out), read(err));
        } finally {
            Files.delete(out);
            Files.delete(err);
        }
    }

    private static String read(Path file) throws IOException {
        return Files.readString(file, StandardCharsets.UTF_8);
    }
}
