package org.apache.flink.streamfusion.nexmark;

import org.apache.flink.configuration.Configuration;

import java.util.Map;

/** Settings of tests. */
final class Settings {
    private Settings() {}

    static NexmarkSettings of(Map<String, String> options) {
        return NexmarkSettings.of(Configuration.fromMap(options));
    }
}
