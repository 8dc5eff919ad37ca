package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;
import org.apache.flink.runtime.memory.MemoryManager;

import org.junit.jupiter.api.Test;

import java.util.Map;
import java.util.TreeMap;

/** What is reserved for how much use, and what gauges show of it. */
class ManagedMemoryTest {

    private static final long MIB = 1 << 20;
    private static final long SLOT = 16 * MIB;

    private final Map<String, Gauge<?>> gauges = new TreeMap<>();
    private final MemoryManager manager = MemoryManager.create(SLOT, MemoryManager.MIN_PAGE_SIZE);

    private ManagedMemory open() {
        return ManagedMemory.open(
                manager,
                "Op",
                new UnregisteredMetricsGroup() {
                    @Override
                    public <T, G extends Gauge<T>> G gauge(String name, G gauge) {
                        gauges.put(name, gauge);
                        return gauge;
                    }
                });
    }

    private long reserved() {
        return SLOT - manager.availableMemory();
    }

    private Map<String, Object> values() {
        final Map<String, Object> values = new TreeMap<>();
        gauges.forEach((name, gauge) -> values.put(name, gauge.getValue()));
        return values;
    }

    @Test
    void useIsRoundedUpToStepsAndGivenBackWhenItHasShrunkForGood() {
        try (ManagedMemory memory = open()) {
            assertThat(reserved()).isEqualTo(MIB);
            memory.update(MIB, MIB);
            assertThat(reserved()).isEqualTo(MIB);
            memory.update(MIB + 1, MIB + 1);
            assertThat(reserved()).isEqualTo(2 * MIB);
            memory.update(12 * MIB, 12 * MIB);
            assertThat(reserved()).isEqualTo(12 * MIB);
            memory.update(10 * MIB, 12 * MIB);
            assertThat(reserved()).as("comes and goes").isEqualTo(12 * MIB);
            memory.update(3 * MIB, 12 * MIB);
            assertThat(reserved()).isEqualTo(3 * MIB);
            memory.update(0, 12 * MIB);
            assertThat(reserved()).isEqualTo(MIB);
        }
        assertThat(reserved()).isZero();
    }

    @Test
    void gaugesShowUsePeakAndDenials() {
        try (ManagedMemory memory = open()) {
            memory.update(5, 7);
            assertThat(values())
                    .isEqualTo(Map.of("nativeMemoryUsed", 5L, "nativeMemoryPeak", 7L, "nativeMemoryDenied", 0L));
            assertThatThrownBy(() -> memory.update(SLOT + 1, SLOT + 1))
                    .isInstanceOf(NativeException.class)
                    .hasMessageStartingWith(
                            "Op needs 17 MiB of managed memory for its state and open bundles. It has 1 MiB, and of the 16 MiB of its slot 15 MiB are left.");
            assertThat(values()).containsEntry("nativeMemoryDenied", 1L).containsEntry("nativeMemoryUsed", SLOT + 1);
            assertThat(reserved()).as("what was denied is not half taken").isEqualTo(MIB);
        }
        assertThat(reserved()).isZero();
    }
}
