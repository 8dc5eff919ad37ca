package org.apache.flink.streamfusion.runtime;

import org.apache.flink.util.function.ThrowingRunnable;

import java.util.ArrayDeque;
import java.util.Deque;

/** What must not overtake rows that cannot go yet: watermarks, their status, record attributes. They go in their order. */
final class HeldEvents {

    private final Deque<ThrowingRunnable<Exception>> events = new ArrayDeque<>();

    boolean isEmpty() {
        return events.isEmpty();
    }

    void hold(ThrowingRunnable<Exception> event) {
        events.add(event);
    }

    void release() throws Exception {
        while (!events.isEmpty()) {
            events.remove().run();
        }
    }
}
