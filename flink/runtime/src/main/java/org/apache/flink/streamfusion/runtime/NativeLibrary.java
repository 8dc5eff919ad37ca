package org.apache.flink.streamfusion.runtime;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Locale;
import java.util.Optional;

/**
 * The shared library, loaded at most once per JVM: from the path in {@link #PATH_PROPERTY} if that is set, else from the
 * jar. When it cannot be loaded, jobs run on stock Flink; the reason is logged once and kept for EXPLAIN.
 */
public final class NativeLibrary {

    /** The version of these classes. The library must have the same one. */
    public static final String VERSION = "0.1.0";

    /** System property with the path of the library to load. */
    public static final String PATH_PROPERTY = "streamfusion.native.library";

    private static final Logger LOG = LoggerFactory.getLogger(NativeLibrary.class);

    private NativeLibrary() {}

    /** Whether native methods may be called. Never throws. */
    public static boolean isAvailable() {
        return unavailableReason().isEmpty();
    }

    /** Why the library is not available, in words for a user; empty if it is. Never throws. */
    public static Optional<String> unavailableReason() {
        return Optional.ofNullable(Loaded.REASON);
    }

    /** Loads on first use; class initialisation runs once. */
    private static final class Loaded {
        static final String REASON = warn(loadConfigured(System.getProperty(PATH_PROPERTY)));
    }

    private static String warn(String reason) {
        if (reason != null) {
            LOG.warn("StreamFusion is off and jobs run on stock Flink: {}", reason);
        }
        return reason;
    }

    private static String loadConfigured(String path) {
        final String resource = resource(System.getProperty("os.name"), System.getProperty("os.arch"));
        return path != null && !path.isBlank()
                ? loadFile(path)
                : load(resource, NativeLibrary.class.getClassLoader());
    }

    static String loadFile(String path) {
        try {
            return load(Path.of(path));
        } catch (InvalidPathException e) {
            return PATH_PROPERTY + " is no path: " + e.getMessage();
        }
    }

    /** The resource that holds the library for a platform. */
    static String resource(String osName, String osArch) {
        final String os = osName.toLowerCase(Locale.ROOT).replace(" ", "");
        final String arch = osArch.equals("amd64") ? "x86_64" : osArch;
        return "streamfusion/native/" + os + "-" + arch + "/libstreamfusion_jni.so";
    }

    /** Loads from a jar by way of a temporary file, which is gone afterwards. Returns the reason of a failure or null. */
    static String load(String resource, ClassLoader classLoader) {
        try (InputStream in = classLoader.getResourceAsStream(resource)) {
            if (in == null) {
                return "there is no native library for this platform (" + resource + " is not on the class path)";
            }
            final Path file = Files.createTempFile("libstreamfusion_jni", ".so");
            try {
                Files.copy(in, file, StandardCopyOption.REPLACE_EXISTING);
                return load(file);
            } finally {
                Files.deleteIfExists(file); // the mapping of a loaded library outlives its file
            }
        } catch (IOException | RuntimeException e) {
            return "the native library could not be unpacked: " + e;
        }
    }

    /** Loads a file. Returns the reason of a failure or null. */
    static String load(Path file) {
        final String version;
        try {
            System.load(file.toAbsolutePath().toString());
            version = Native.version();
        } catch (LinkageError | RuntimeException e) {
            return "the native library could not be loaded: " + e.getMessage();
        }
        return checkVersion(version);
    }

    static String checkVersion(String version) {
        return VERSION.equals(version)
                ? null
                : "the native library has version " + version + ", the Java classes have version " + VERSION;
    }
}
