package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;

import org.junit.jupiter.api.Test;

import java.util.Map;
import java.util.TreeMap;

class StageMetricsTest {

    private final Map<String, Gauge<?>> gauges = new TreeMap<>();

    /** Keeps gauges by their full names. */
    private final class Group extends UnregisteredMetricsGroup {
        private final String name;

        Group(String name) {
            this.name = name;
        }

        @Override
        public MetricGroup addGroup(String child) {
            return new Group(name + child + ".");
        }

        @Override
        public <T, G extends Gauge<T>> G gauge(String child, G gauge) {
            assertThat(gauges.put(name + child, gauge)).isNull();
            return gauge;
        }
    }

    @Test
    void everyCounterOfANodeIsAGauge() {
        final StageMetrics metrics = new StageMetrics(new Group(""));
        assertThat(metrics.isStale()).isTrue();
        metrics.refresh("{\"nodes\":[{\"id\":7,\"rowsIn\":0,\"rowsOut\":0},{\"id\":9,\"rowsIn\":0}]}");
        assertThat(metrics.isStale()).isFalse();
        assertThat(gauges.keySet())
                .containsExactly("nativeNode.7.rowsIn", "nativeNode.7.rowsOut", "nativeNode.9.rowsIn");
        metrics.refresh("{\"nodes\":[{\"id\":7,\"rowsIn\":10,\"rowsOut\":5},{\"id\":9,\"rowsIn\":5}]}");
        assertThat(gauges.get("nativeNode.7.rowsIn").getValue()).isEqualTo(10L);
        assertThat(gauges.get("nativeNode.9.rowsIn").getValue()).isEqualTo(5L);
    }
}
