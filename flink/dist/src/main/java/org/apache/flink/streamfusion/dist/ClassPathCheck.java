package org.apache.flink.streamfusion.dist;

import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.table.factories.Factory;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import java.net.URL;
import java.security.CodeSource;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * Warns, once per JVM, where this jar comes after Flink's on the class path: then Flink's planner factory is used, and every
 * job silently runs on stock Flink.
 *
 * <p>Flink's start scripts sort {@code lib/} by name, so only a renamed jar comes too late there; other launchers (that of
 * PyFlink, a class path with a wildcard) keep no order. Flink instantiates all {@link Factory} services whenever it looks for
 * one, wherever their jars are; that is all this class is a factory for. No table can name it.
 */
public final class ClassPathCheck implements Factory {

    /** What this jar replaces: the first where the planner has a class loader of its own, the second where it has none. */
    private static final List<String> REPLACED =
            List.of(
                    "org.apache.flink.table.planner.loader.DelegatePlannerFactory",
                    "org.apache.flink.table.planner.delegation.DefaultPlannerFactory");

    private static final Logger LOG = LoggerFactory.getLogger(ClassPathCheck.class);

    public ClassPathCheck() {
        Once.run();
    }

    /** Class initialisation runs once. */
    private static final class Once {
        static {
            complaint().ifPresent(LOG::warn);
        }

        static void run() {}
    }

    /** What to warn of; empty if the classes that this jar replaces are its own. */
    static Optional<String> complaint() {
        final ClassLoader loader = ClassPathCheck.class.getClassLoader();
        final URL own = location(ClassPathCheck.class);
        for (String name : REPLACED) {
            try {
                final URL actual = location(Class.forName(name, false, loader));
                if (own != null && !own.equals(actual)) {
                    return Optional.of(
                            String.format(
                                    "StreamFusion is off and jobs run on stock Flink: %s comes after %s on the class path."
                                            + " Flink's scripts order lib/ by name; keep the jar's name (docs/deployment.md)",
                                    own, actual));
                }
            } catch (ClassNotFoundException | LinkageError e) {
                LOG.debug("{} cannot be checked", name, e);
            }
        }
        return Optional.empty();
    }

    private static URL location(Class<?> type) {
        final CodeSource source = type.getProtectionDomain().getCodeSource();
        return source == null ? null : source.getLocation();
    }

    @Override
    public String factoryIdentifier() {
        return "streamfusion-class-path-check";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of();
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of();
    }
}
