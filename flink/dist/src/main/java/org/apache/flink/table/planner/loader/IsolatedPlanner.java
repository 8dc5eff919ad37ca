package org.apache.flink.table.planner.loader;

import org.apache.flink.table.delegation.PlannerFactory;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Optional;

/**
 * Hands our planner classes to the planner's own class loader, once per JVM.
 *
 * <p>Classes that extend Flink's planner must be defined by that loader. They come as a jar inside of this jar, which holds
 * nothing that runs on task managers: those classes are found by falling back to {@code lib/}, and must exist once.
 */
final class IsolatedPlanner {

    /** The jar with the planner classes, as a resource of the outer jar. */
    static final String NESTED_JAR = "streamfusion/streamfusion-planner.jar";

    private static final String FACTORY = "org.apache.flink.streamfusion.planner.StreamFusionPlannerFactory";

    private static final Logger LOG = LoggerFactory.getLogger(IsolatedPlanner.class);

    private IsolatedPlanner() {}

    /** Creates planners for streaming; empty if they could not be put in place, which was logged. */
    static Optional<PlannerFactory> factory() {
        return Loaded.FACTORY;
    }

    /** Loads on first use; class initialisation runs once. */
    private static final class Loaded {
        static final Optional<PlannerFactory> FACTORY = load();
    }

    private static Optional<PlannerFactory> load() {
        try {
            final PlannerModule module = PlannerModule.getInstance();
            module.addUrlToClassLoader(extract().toUri().toURL());
            final Class<?> factory = Class.forName(FACTORY, true, module.getSubmoduleClassLoader());
            if (factory.getClassLoader() != module.getSubmoduleClassLoader()) {
                throw new IllegalStateException("the planner's class loader does not define " + FACTORY);
            }
            return Optional.of((PlannerFactory) factory.getConstructor().newInstance());
        } catch (IOException | ReflectiveOperationException | RuntimeException | LinkageError e) {
            LOG.warn("StreamFusion is off and jobs run on stock Flink: its planner could not be loaded", e);
            return Optional.empty();
        }
    }

    private static Path extract() throws IOException {
        try (InputStream jar = IsolatedPlanner.class.getClassLoader().getResourceAsStream(NESTED_JAR)) {
            if (jar == null) {
                throw new IOException(NESTED_JAR + " is not on the class path");
            }
            final Path file = Files.createTempFile("streamfusion-planner", ".jar");
            file.toFile().deleteOnExit();
            Files.copy(jar, file, StandardCopyOption.REPLACE_EXISTING);
            return file;
        }
    }
}
