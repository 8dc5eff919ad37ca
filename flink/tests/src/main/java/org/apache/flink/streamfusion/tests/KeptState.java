package org.apache.flink.streamfusion.tests;

import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.StateBackendOptions;

import java.util.List;

/**
 * Where a job keeps its state, and how much of it may be in memory.
 *
 * <p>On the heap, unless a test says otherwise, for opening a database costs more than a small job. The system property
 * {@code streamfusion.test.state} has all tests of parity keep it in one place: {@code heap}, {@code rocksdb} or
 * {@code rocksdb-incremental}, the latter two with a size behind a colon for what native operators keep in memory, as in
 * {@code rocksdb:64kb}; or, with {@code each}, in one place after the other.
 */
public enum KeptState {
    HEAP("heap"),
    ROCKSDB("rocksdb"),
    /** All but the keys of the last batch leaves memory, half of it at a time. */
    ROCKSDB_WITHOUT_CACHE("rocksdb:1"),
    ROCKSDB_INCREMENTAL_WITH_SMALL_CACHE("rocksdb-incremental:64kb");

    private static final String PROPERTY = "streamfusion.test.state";
    private static final String CACHE = "streamfusion.state.cache.max-size";
    private static final String EACH = "each";
    private static final String EVERYWHERE = System.getProperty(PROPERTY);

    private final String text;

    KeptState(String text) {
        this.text = text;
    }

    /** Where the jobs of a test that does not care keep their state. A test that sets the backend itself gets the sizes of the cache. */
    static KeptState inTurn(int number) {
        List<KeptState> places = List.of(HEAP, ROCKSDB_WITHOUT_CACHE, ROCKSDB_INCREMENTAL_WITH_SMALL_CACHE, ROCKSDB);
        return places.get(number % places.size());
    }

    /** Puts it into the configuration of a job, unless the test has not {@code chosen} it and nobody asks for it. */
    void select(Configuration configuration, boolean chosen) {
        String[] words = place(chosen).split(":");
        boolean incremental = words[0].equals("rocksdb-incremental");
        String backend = switch (words[0]) {
            case "heap" -> "hashmap";
            case "rocksdb", "rocksdb-incremental" -> "rocksdb";
            default -> throw new IllegalArgumentException("%s=%s".formatted(PROPERTY, EVERYWHERE));
        };
        configuration.set(StateBackendOptions.STATE_BACKEND, backend);
        configuration.set(CheckpointingOptions.INCREMENTAL_CHECKPOINTS, incremental);
        // counts where the test has set the backend too, and does nothing on the heap
        String[] ofCache = (EVERYWHERE == null || EVERYWHERE.equals(EACH) ? text : EVERYWHERE).split(":");
        if (ofCache.length > 1) {
            configuration.setString(CACHE, MemorySize.parse(ofCache[1]).toString());
        }
    }

    private String place(boolean chosen) {
        if (EVERYWHERE == null) {
            return chosen ? text : HEAP.text;
        }
        return EVERYWHERE.equals(EACH) ? text : EVERYWHERE;
    }
}
