package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

class NativeLibraryTest {

    @TempDir private Path directory;

    @Test
    void aPlatformWithoutALibraryIsAReason() {
        final String resource = NativeLibrary.resource("Mac OS X", "aarch64");
        assertThat(resource).isEqualTo("streamfusion/native/macosx-aarch64/libstreamfusion_jni.so");
        assertThat(NativeLibrary.load(resource, getClass().getClassLoader()))
                .contains("no native library for this platform")
                .contains(resource);
    }

    @Test
    void linuxOnX86HasOneNameForItsTwo() {
        assertThat(NativeLibrary.resource("Linux", "amd64"))
                .isEqualTo(NativeLibrary.resource("Linux", "x86_64"))
                .isEqualTo("streamfusion/native/linux-x86_64/libstreamfusion_jni.so");
    }

    @Test
    void aMissingFileIsAReason() {
        assertThat(NativeLibrary.load(directory.resolve("missing.so"))).contains("could not be loaded");
    }

    @Test
    void whatIsNoPathIsAReason() {
        assertThat(NativeLibrary.loadFile("no\u0000path")).contains(NativeLibrary.PATH_PROPERTY);
    }

    @Test
    void aFileThatIsNoLibraryIsAReason() throws IOException {
        final Path file = Files.writeString(directory.resolve("garbage.so"), "not a library");
        assertThat(NativeLibrary.load(file)).contains("could not be loaded");
    }

    @Test
    void aResourceThatIsNoLibraryIsAReasonAndLeavesNoFileBehind() throws IOException {
        final String resource = NativeLibrary.resource("linux", "amd64");
        final Path file = directory.resolve(resource);
        Files.createDirectories(file.getParent());
        Files.writeString(file, "not a library");
        final long before = temporaryFiles();
        try (URLClassLoader loader = new URLClassLoader(new URL[] {directory.toUri().toURL()}, null)) {
            assertThat(NativeLibrary.load(resource, loader)).contains("could not be loaded");
        }
        assertThat(temporaryFiles()).isEqualTo(before);
    }

    private static long temporaryFiles() throws IOException {
        try (Stream<Path> files = Files.list(Path.of(System.getProperty("java.io.tmpdir")))) {
            return files.filter(f -> f.getFileName().toString().startsWith("libstreamfusion_jni")).count();
        }
    }

    @Test
    void anotherVersionIsAReason() {
        assertThat(NativeLibrary.checkVersion("0.0.9")).contains("0.0.9").contains(NativeLibrary.VERSION);
        assertThat(NativeLibrary.checkVersion(NativeLibrary.VERSION)).isNull();
    }
}
