package org.apache.flink.streamfusion.tests.cluster;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Processes that Flink's own scripts start in the foreground, so that each is a child of this JVM under its own id.
 *
 * <p>Closing ends all that were started, by that id; the end of this JVM does, too.
 */
final class FlinkProcesses implements AutoCloseable {
    private static final long SECONDS_TO_END = 10;

    private final FlinkHome home;
    private final List<Running> started = new ArrayList<>();
    private final Thread atEndOfJvm = new Thread(this::killAll);

    FlinkProcesses(FlinkHome home) {
        this.home = home;
        Runtime.getRuntime().addShutdownHook(atEndOfJvm);
    }

    /**
     * A process.
     *
     * @param name what it is
     * @param process the process
     * @param output file with what it printed, its log included
     */
    record Running(String name, Process process, Path output) {
        /** SIGKILL: nothing in the process gets to say goodbye. */
        void kill() throws InterruptedException {
            process.destroyForcibly();
            if (!process.waitFor(SECONDS_TO_END, TimeUnit.SECONDS)) {
                throw new IllegalStateException(name + " outlives SIGKILL");
            }
        }
    }

    Running start(String name, String script, String... arguments) throws IOException {
        List<String> command = new ArrayList<>();
        command.add(home.script(script).toString());
        command.addAll(List.of(arguments));
        Path output = home.root().resolve("log").resolve(name + ".out");
        ProcessBuilder builder = new ProcessBuilder(command)
                .directory(home.root().toFile())
                .redirectErrorStream(true)
                .redirectOutput(output.toFile());
        // A machine may have variables of another distribution.
        builder.environment().keySet().removeIf(variable -> variable.startsWith("FLINK_") || variable.startsWith("HADOOP_"));
        builder.environment().put("JAVA_HOME", System.getProperty("java.home"));
        Running running = new Running(name, builder.start(), output);
        synchronized (started) {
            started.add(running);
        }
        return running;
    }

    /** All that were started, those that ended included. */
    List<Running> all() {
        synchronized (started) {
            return List.copyOf(started);
        }
    }

    /** The last lines of what each printed, for the message of a failure. */
    String lastWords() {
        StringBuilder words = new StringBuilder();
        for (Running running : all()) {
            words.append("\n--- ").append(running.name()).append('\n');
            try {
                List<String> lines = Files.readAllLines(running.output());
                lines.subList(Math.max(0, lines.size() - 30), lines.size()).forEach(line -> words.append(line).append('\n'));
            } catch (IOException e) {
                words.append(e);
            }
        }
        return words.toString();
    }

    @Override
    public void close() throws InterruptedException {
        killAll();
        for (Running running : all()) {
            running.process().waitFor(SECONDS_TO_END, TimeUnit.SECONDS);
        }
        Runtime.getRuntime().removeShutdownHook(atEndOfJvm);
    }

    private void killAll() {
        // A script that was interrupted before it became a JVM has a child.
        all().forEach(running -> running.process().descendants().forEach(ProcessHandle::destroyForcibly));
        all().forEach(running -> running.process().destroyForcibly());
    }
}
