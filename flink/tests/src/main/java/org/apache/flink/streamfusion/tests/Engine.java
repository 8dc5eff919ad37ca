package org.apache.flink.streamfusion.tests;

import org.apache.flink.configuration.Configuration;

/** Who runs a job: Flink alone, or Flink with native stages. */
public enum Engine {
    STOCK("false"),
    NATIVE("true");

    /** Turns native stages on and off. */
    public static final String ENABLED = "streamfusion.enabled";

    /** Rows after which a batch is closed at the entry. */
    public static final String EXCHANGE_BY_HANDLE = "streamfusion.exchange.by-handle";
    public static final String BATCH_MAX_ROWS = "streamfusion.batch.max-rows";

    /** Whether small islands stay on Flink. */
    public static final String ISLANDS_WEIGH = "streamfusion.islands.weigh";

    private final String enabled;

    Engine(String enabled) {
        this.enabled = enabled;
    }

    /** Selects this engine in a job's configuration. */
    public void select(Configuration configuration) {
        configuration.setString(ENABLED, enabled);
    }
}
