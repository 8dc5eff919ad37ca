package org.apache.flink.streamfusion.planner;

import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.streamfusion.runtime.StageConfig;

import java.time.Duration;

/** The options of a session. Those that change what runs natively are read by Rust from the request. */
public final class StreamFusionOptions {

    public static final ConfigOption<Boolean> ENABLED =
            ConfigOptions.key("streamfusion.enabled")
                    .booleanType()
                    .defaultValue(true)
                    .withDescription("Whether operators run natively where they can. Read when a statement is planned.");

    public static final ConfigOption<Integer> BATCH_MAX_ROWS =
            ConfigOptions.key("streamfusion.batch.max-rows")
                    .intType()
                    .defaultValue(StageConfig.DEFAULT_MAX_BATCH_ROWS)
                    .withDescription("Rows after which a batch is closed where rows enter a native stage.");

    public static final ConfigOption<Duration> BATCH_LATENCY =
            ConfigOptions.key("streamfusion.batch.latency")
                    .durationType()
                    .noDefaultValue()
                    .withDescription(
                            "Time after which a batch is closed where rows enter a native stage, counted from its first"
                                    + " row. By default the buffer timeout of the job.");

    public static final ConfigOption<MemorySize> STATE_CACHE_MAX_SIZE =
            ConfigOptions.key("streamfusion.state.cache.max-size")
                    .memoryType()
                    .noDefaultValue()
                    .withDescription(
                            "How much of its state in RocksDB each native operator keeps in memory at most. By default as"
                                    + " much as the managed memory of its slot has room for.");

    public static final ConfigOption<Boolean> EXCHANGE_BY_HANDLE =
            ConfigOptions.key("streamfusion.exchange.by-handle")
                    .booleanType()
                    .defaultValue(true)
                    .withDescription(
                            "Whether batches are handed over in memory where both ends of a keyed exchange run in one process. They"
                                    + " never are with unaligned checkpoints.");

    private StreamFusionOptions() {}
}
