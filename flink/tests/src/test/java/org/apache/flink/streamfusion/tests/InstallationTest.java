package org.apache.flink.streamfusion.tests;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import org.apache.flink.streamfusion.runtime.NativeLibrary;

import org.junit.jupiter.api.Test;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

/** A whole job in a JVM of its own per way to install: where the planner lies, and whether the library can be loaded. */
class InstallationTest {
    private static final String RESULT = "[[+I('a', 1, 1), -U('a', 1, 1), +U('a', 2, 4), +I(NULL, 1, 4)]]";
    private static final String LIBRARY = System.getProperty(NativeLibrary.PATH_PROPERTY, "");

    @Test
    void missingLibraryLeavesTheJobOnFlinkWithOneWarning() throws Exception {
        ForkedJvm.Outcome outcome = ForkedJvm.withThisClassPath()
                .property(NativeLibrary.PATH_PROPERTY, "/no/such/libstreamfusion_jni.so")
                .run(ForkedJob.class);
        assertStock(outcome, "/no/such/libstreamfusion_jni.so");
    }

    @Test
    void fileThatIsNoLibraryLeavesTheJobOnFlinkWithOneWarning() throws Exception {
        Path text = Files.createTempFile("not-a-library", ".so");
        Files.writeString(text, "made for another platform");
        try {
            ForkedJvm.Outcome outcome = ForkedJvm.withThisClassPath()
                    .property(NativeLibrary.PATH_PROPERTY, text.toString())
                    .run(ForkedJob.class);
            assertStock(outcome, text.toString());
        } finally {
            Files.delete(text);
        }
    }

    @Test
    void oneJarWithTheIsolatedPlanner() throws Exception {
        assumeTrue(!LIBRARY.isEmpty(), "no native library");
        assertNative(oneJar()
                .without(element -> element.contains("flink-table-planner_2.12"))
                .first(existing("streamfusion.test.planner-loader"))
                .first(existing("streamfusion.test.one-jar"))
                .run(ForkedJob.class));
    }

    @Test
    void oneJarWithTheFlatPlanner() throws Exception {
        assumeTrue(!LIBRARY.isEmpty(), "no native library");
        assertNative(oneJar().first(existing("streamfusion.test.one-jar")).run(ForkedJob.class));
    }

    @Test
    void oneJarThatComesTooLateLeavesTheJobOnFlinkWithOneWarning() throws Exception {
        ForkedJvm.Outcome outcome = oneJar()
                .without(element -> element.contains("flink-table-planner_2.12"))
                .first(existing("streamfusion.test.planner-loader"))
                .last(existing("streamfusion.test.one-jar"))
                .run(ForkedJob.class);
        assertThat(outcome.exitCode()).as(outcome.err()).isZero();
        assertThat(outcome.out()).contains(RESULT).doesNotContain("natively");
        assertThat(outcome.err().lines().filter(line -> line.contains(" WARN ")))
                .singleElement()
                .asString()
                .contains("StreamFusion is off")
                .contains("flink-table-planner-loader");
    }

    /** The class path without the classes that the one jar was made of. */
    private static ForkedJvm oneJar() {
        return ForkedJvm.withThisClassPath()
                .without(InstallationTest::isOwnClasses)
                .property(NativeLibrary.PATH_PROPERTY, LIBRARY);
    }

    private static boolean isOwnClasses(String element) {
        String path = element.replace('\\', '/');
        return path.contains("streamfusion-planner")
                || path.contains("streamfusion-runtime")
                || path.endsWith("planner/target/classes")
                || path.endsWith("runtime/target/classes");
    }

    private static Path existing(String property) {
        String path = System.getProperty(property, "");
        assumeTrue(Files.isRegularFile(Path.of(path)), "not packaged: " + path);
        return Path.of(path);
    }

    private static void assertStock(ForkedJvm.Outcome outcome, String why) {
        assertThat(outcome.exitCode()).as(outcome.err()).isZero();
        assertThat(outcome.out()).contains(RESULT).contains("stock Flink").contains(why);
        assertThat(Arrays.stream(outcome.err().split("\n")).filter(line -> line.contains(" WARN ")))
                .singleElement()
                .asString()
                .contains(why);
    }

    private static void assertNative(ForkedJvm.Outcome outcome) {
        assertThat(outcome.exitCode()).as(outcome.err()).isZero();
        assertThat(outcome.out()).contains(RESULT).contains("3 of 5 nodes run natively");
        assertThat(outcome.err()).doesNotContain("WARN");
    }
}
