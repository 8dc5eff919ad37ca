package org.apache.flink.streamfusion.runtime;

import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * What a stage counts per node, as gauges {@code nativeNode.<id>.<counter>} of its operator.
 *
 * <p>Reporters read from their own threads and must neither wait for a stage nor touch one that is closed. So the task
 * thread copies the counters from time to time, and gauges show the copy.
 */
final class StageMetrics {

    private static final long REFRESH_NANOS = 1_000_000_000;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final MetricGroup group;
    private final Map<String, Long> values = new ConcurrentHashMap<>();
    private long refreshedAt = System.nanoTime() - REFRESH_NANOS;

    StageMetrics(MetricGroup group) {
        this.group = group.addGroup("nativeNode");
    }

    /** Whether the copy is so old that it should be renewed. */
    boolean isStale() {
        return System.nanoTime() - refreshedAt >= REFRESH_NANOS;
    }

    /** Renews the copy from the text that the library gives. */
    void refresh(String text) {
        refreshedAt = System.nanoTime();
        final JsonNode nodes;
        try {
            nodes = JSON.readTree(text).path("nodes");
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("The counters of a stage are not JSON: " + text, e);
        }
        for (JsonNode node : nodes) {
            final String id = node.path("id").asText();
            node.fields().forEachRemaining(
                    counter -> {
                        if (!counter.getKey().equals("id")) {
                            put(id, counter.getKey(), counter.getValue().asLong());
                        }
                    });
        }
    }

    private void put(String node, String counter, long value) {
        final String key = node + '.' + counter;
        if (values.put(key, value) == null) {
            group.addGroup(node).gauge(counter, (Gauge<Long>) () -> values.get(key));
        }
    }
}
