package org.apache.flink.streamfusion.dist;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.File;
import java.io.IOException;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;

import static org.assertj.core.api.Assertions.assertThat;

/** The finished jar before Flink's own on a class path, as in {@code lib/}. */
class OneJarTest {

    private static final String ISOLATED = "flink-table-planner-loader";
    private static final String FLAT = "flink-table-planner_2.12";

    private static final Path JAR = Path.of(System.getProperty("streamfusion.jar"));

    @ParameterizedTest
    @ValueSource(strings = {ISOLATED, FLAT})
    void planner_for_streaming_is_replaced(String planner) throws Exception {
        assertThat(run("explainStreaming", lib(planner)))
                .contains("== Optimized Execution Plan ==")
                .contains("== StreamFusion ==");
    }

    @ParameterizedTest
    @ValueSource(strings = {ISOLATED, FLAT})
    void planner_for_batch_is_left_alone(String planner) throws Exception {
        assertThat(run("explainBatch", lib(planner)))
                .contains("== Optimized Execution Plan ==")
                .doesNotContain("StreamFusion");
    }

    @ParameterizedTest
    @ValueSource(strings = {ISOLATED, FLAT})
    void stages_are_planned_with_the_runtime_classes_of_the_outer_jar(String planner) throws Exception {
        assertThat(run("runtimeLoaders", lib(planner))).isEqualTo("same");
    }

    @Test
    void jar_sorts_before_the_jars_whose_classes_it_replaces() {
        assertThat(JAR.getFileName().toString()).isLessThan("flink-table-api-java-uber-2.2.1.jar").isLessThan(ISOLATED);
    }

    @ParameterizedTest
    @ValueSource(strings = {ISOLATED, FLAT})
    void jar_that_comes_first_has_nothing_to_warn_of(String planner) throws Exception {
        assertThat(run("complaint", lib(planner))).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(strings = {ISOLATED, FLAT})
    void jar_that_comes_too_late_says_so_and_leaves_jobs_on_flink(String planner) throws Exception {
        final List<URL> late = lib(planner);
        Collections.rotate(late, -1);
        assertThat(run("complaint", late)).contains("StreamFusion is off").contains(planner);
        assertThat(run("explainStreaming", late))
                .contains("== Optimized Execution Plan ==")
                .doesNotContain("StreamFusion");
    }

    @Test
    void jar_has_two_classes_of_names_that_flink_has_and_no_planner_service() throws IOException {
        final List<String> foreign = new ArrayList<>();
        try (JarFile jar = new JarFile(JAR.toFile())) {
            jar.stream()
                    .map(entry -> entry.getName())
                    .filter(name -> name.endsWith(".class") && !name.startsWith("org/apache/flink/streamfusion/"))
                    .filter(name -> !name.contains("$"))
                    .forEach(foreign::add);
            assertThat(jar.getEntry("META-INF/LICENSE")).isNotNull();
            // A second planner factory would be an error in Flink.
            final String services = "META-INF/services/";
            assertThat(jar.stream().map(JarEntry::getName).filter(name -> name.startsWith(services) && !name.equals(services)))
                    .containsExactly(services + "org.apache.flink.table.factories.Factory");
            assertThat(jar.getInputStream(jar.getEntry(services + "org.apache.flink.table.factories.Factory")))
                    .hasContent("org.apache.flink.streamfusion.dist.ClassPathCheck");
        }
        assertThat(foreign)
                .containsExactlyInAnyOrder(
                        "org/apache/flink/table/planner/delegation/DefaultPlannerFactory.class",
                        "org/apache/flink/table/planner/loader/DelegatePlannerFactory.class",
                        "org/apache/flink/table/planner/loader/IsolatedPlanner.class");
    }

    /** The jar, then Flink with one sort of planner. The classes that the jar was made of are left out. */
    private static List<URL> lib(String planner) throws MalformedURLException {
        final String other = planner.equals(FLAT) ? ISOLATED : FLAT;
        final String classPath =
                System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
        final List<URL> urls = new ArrayList<>();
        urls.add(JAR.toUri().toURL());
        for (String element : classPath.split(File.pathSeparator)) {
            final Path path = Path.of(element);
            final String name = path.getFileName().toString();
            if (!name.equals("classes") && !name.startsWith("streamfusion-") && !name.startsWith(other + "-")) {
                urls.add(path.toUri().toURL());
            }
        }
        return urls;
    }

    private static String run(String method, List<URL> lib) throws Exception {
        final Thread thread = Thread.currentThread();
        final ClassLoader before = thread.getContextClassLoader();
        try (URLClassLoader loader =
                new URLClassLoader(lib.toArray(new URL[0]), ClassLoader.getPlatformClassLoader())) {
            thread.setContextClassLoader(loader);
            return (String) loader.loadClass(Probe.class.getName()).getMethod(method).invoke(null);
        } finally {
            thread.setContextClassLoader(before);
        }
    }
}
