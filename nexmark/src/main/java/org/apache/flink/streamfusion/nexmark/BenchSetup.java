package org.apache.flink.streamfusion.nexmark;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.streamfusion.tests.Engine;
import org.apache.flink.streamfusion.tests.LocalCluster;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

import java.util.HashMap;
import java.util.Map;

/**
 * Under which circumstances queries are run.
 *
 * @param backend where stock Flink keeps state, and what native state is written for
 * @param miniBatch whether Flink emits once per bundle of rows
 * @param source whether events are made while the clock runs
 * @param events per run
 * @param rate events per second of event time
 * @param parallelism of all operators
 * @param runs counted ones, after one that is not
 * @param options of Flink, beside those
 */
record BenchSetup(
        Backend backend,
        MiniBatch miniBatch,
        Source source,
        long events,
        long rate,
        int parallelism,
        int runs,
        Map<String, String> options) {

    enum Backend {
        HEAP("hashmap"),
        ROCKSDB("rocksdb");

        private final String type;

        Backend(String type) {
            this.type = type;
        }
    }

    enum MiniBatch {
        OFF(Map.of()),
        ON(Map.of(
                "table.exec.mini-batch.enabled", "true",
                "table.exec.mini-batch.allow-latency", "2 s",
                "table.exec.mini-batch.size", "50000"));

        private final Map<String, String> options;

        MiniBatch(Map<String, String> options) {
            this.options = options;
        }

        /** Flink's options. */
        Map<String, String> options() {
            return options;
        }
    }

    enum Source {
        REPLAY("replay"),
        GENERATOR("generate");

        private final String mode;

        Source(String mode) {
            this.mode = mode;
        }
    }

    /** An environment of the engine that has the table of events. */
    StreamTableEnvironment environment(Engine engine) {
        return environment(engine, parallelism, source);
    }

    /** The same for results that are compared: where two events of one time meet, only one reader has an order for them. */
    StreamTableEnvironment environmentToCompare(Engine engine) {
        return environment(engine, 1, Source.GENERATOR);
    }

    private StreamTableEnvironment environment(Engine engine, int readers, Source from) {
        Configuration configuration = new Configuration();
        engine.select(configuration);
        configuration.set(StateBackendOptions.STATE_BACKEND, backend.type);
        miniBatch.options().forEach(configuration::setString);
        options.forEach(configuration::setString);
        StreamTableEnvironment environment = LocalCluster.tableEnvironment(configuration, readers);
        Map<String, String> table = new HashMap<>();
        table.put("events", Long.toString(events));
        table.put("rate", Long.toString(rate));
        table.put("mode", from.mode);
        NexmarkQuery.createEvents(environment, table);
        return environment;
    }
}
