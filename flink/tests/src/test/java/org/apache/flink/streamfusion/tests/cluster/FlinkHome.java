package org.apache.flink.streamfusion.tests.cluster;

import org.apache.flink.streamfusion.tests.connector.PacedIdsFactory;
import org.apache.flink.table.factories.Factory;

import java.io.IOException;
import java.io.OutputStream;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.jar.JarEntry;
import java.util.jar.JarOutputStream;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A private copy of a distribution of Flink, as it lies on a machine after our jar was dropped into {@code lib/}.
 *
 * <p>Scripts are copied, for they find everything else from where they lie; jars are links. Configuration, logs, process ids
 * and temporary files are the copy's own.
 */
final class FlinkHome {
    private static final String JVM_OPTIONS_KEY = "all: ";
    /** A JVM of this test lives for a minute: what makes it start sooner matters more than what makes it fast. */
    private static final String SHORT_LIVED = " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto";

    private final Path root;

    private FlinkHome(Path root) {
        this.root = root;
    }

    /**
     * Lays out the copy.
     *
     * @param distribution a distribution with {@code bin}, {@code conf}, {@code lib} and {@code opt}
     * @param dropped jars to drop into {@code lib/}
     * @param optional jars to add to {@code opt/}
     */
    static FlinkHome create(Path root, Path distribution, List<Path> dropped, List<Path> optional) throws IOException {
        FlinkHome home = new FlinkHome(root);
        for (String directory : List.of("bin", "conf", "lib", "opt", "plugins", "log", "tmp")) {
            Files.createDirectories(root.resolve(directory));
        }
        for (Path script : files(distribution.resolve("bin"))) {
            Path copy = Files.copy(script, root.resolve("bin").resolve(script.getFileName()));
            if (!copy.toFile().setExecutable(true)) {
                throw new IOException(copy + " cannot be made executable");
            }
        }
        for (Path logging : files(distribution.resolve("conf"))) {
            if (logging.getFileName().toString().startsWith("log4j")) {
                Files.copy(logging, root.resolve("conf").resolve(logging.getFileName()));
            }
        }
        link(files(distribution.resolve("lib")), root.resolve("lib"));
        link(dropped, root.resolve("lib"));
        link(files(distribution.resolve("opt")), root.resolve("opt"));
        link(optional, root.resolve("opt"));
        home.addConnector();
        return home;
    }

    /** Writes the configuration: what the distribution gives to a JVM, and the options. */
    void configure(Path distribution, Map<String, String> options) throws IOException {
        String shipped;
        try (Stream<String> lines = Files.lines(distribution.resolve("conf/config.yaml"))) {
            shipped = lines.map(String::strip)
                    .filter(line -> line.startsWith(JVM_OPTIONS_KEY))
                    .findFirst()
                    .map(line -> line.substring(JVM_OPTIONS_KEY.length()))
                    .orElseThrow(() -> new IOException("No JVM options in the distribution's configuration"));
        }
        String own = Stream.of("log", "pid")
                .map(kind -> "env." + kind + ".dir: " + root.resolve(kind.equals("log") ? "log" : "tmp") + "\n")
                .collect(Collectors.joining());
        String rest = options.entrySet().stream()
                .map(option -> option.getKey() + ": " + option.getValue() + "\n")
                .collect(Collectors.joining());
        Files.writeString(
                root.resolve("conf/config.yaml"),
                "env.java.opts.all: " + shipped + SHORT_LIVED + "\nio.tmp.dirs: " + root.resolve("tmp") + "\n" + own + rest);
    }

    Path root() {
        return root;
    }

    Path script(String name) {
        return root.resolve("bin").resolve(name);
    }

    /** The source of the test as a user would bring a connector: a jar of its own, with one service. */
    private void addConnector() throws IOException {
        String directory = PacedIdsFactory.class.getPackageName().replace('.', '/') + "/";
        Path classes;
        try {
            classes = Path.of(
                    PacedIdsFactory.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        } catch (URISyntaxException e) {
            throw new IOException(e);
        }
        try (OutputStream file = Files.newOutputStream(root.resolve("lib/test-connector.jar"));
                JarOutputStream jar = new JarOutputStream(file)) {
            for (Path type : files(classes.resolve(directory))) {
                jar.putNextEntry(new JarEntry(directory + type.getFileName()));
                Files.copy(type, jar);
            }
            jar.putNextEntry(new JarEntry("META-INF/services/" + Factory.class.getName()));
            jar.write(PacedIdsFactory.class.getName().getBytes(StandardCharsets.UTF_8));
        }
    }

    private static void link(List<Path> files, Path directory) throws IOException {
        for (Path file : files) {
            Files.createSymbolicLink(directory.resolve(file.getFileName()), file.toAbsolutePath());
        }
    }

    private static List<Path> files(Path directory) throws IOException {
        try (Stream<Path> entries = Files.list(directory)) {
            return entries.filter(Files::isRegularFile).sorted().toList();
        }
    }
}
