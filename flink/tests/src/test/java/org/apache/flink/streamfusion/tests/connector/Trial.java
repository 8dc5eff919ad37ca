package org.apache.flink.streamfusion.tests.connector;

import java.time.Duration;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * What a job that reads {@link TrialIdsFactory} has to go through. Its sources wait when they have emitted half of their ids, until
 * they are told to go on, and may fail once at three quarters.
 */
public final class Trial implements AutoCloseable {

    private static final Map<String, Trial> TRIALS = new ConcurrentHashMap<>();

    private final String name = UUID.randomUUID().toString();
    private final int sources;
    private final CountDownLatch waiting;
    private final CountDownLatch released = new CountDownLatch(1);
    private final AtomicBoolean fails;
    private final Duration reach;
    private final AtomicInteger restored = new AtomicInteger();
    private final AtomicInteger started = new AtomicInteger();

    private Trial(int sources, boolean fails, Duration reach) {
        this.sources = sources;
        this.waiting = new CountDownLatch(sources);
        this.fails = new AtomicBoolean(fails);
        this.reach = reach;
        TRIALS.put(name, this);
    }

    /** A trial in which nothing happens of itself. */
    public static Trial waiting(int sources) {
        return new Trial(sources, false, Duration.ZERO);
    }

    /** A trial in which one source fails at three quarters. */
    public static Trial failing(int sources) {
        return failing(sources, Duration.ZERO);
    }

    /** The same, but the source gives its ids this time to get to where they are worked off before it fails. */
    public static Trial failing(int sources, Duration reach) {
        return new Trial(sources, true, reach);
    }

    static Trial named(String name) {
        final Trial trial = TRIALS.get(name);
        if (trial == null) {
            throw new IllegalStateException("There is no trial " + name);
        }
        return trial;
    }

    public String name() {
        return name;
    }

    /** Returns when every source has emitted half. */
    public void awaitHalf() throws InterruptedException {
        if (!waiting.await(60, TimeUnit.SECONDS)) {
            throw new IllegalStateException("The sources did not get to their middle in time");
        }
    }

    /** Lets the sources go on, those of later jobs too. */
    public void release() {
        released.countDown();
    }

    /** How many sources began with the state of a snapshot. */
    public int restored() {
        return restored.get();
    }

    /** How often all sources were started. */
    public int attempts() {
        return started.get() / sources;
    }

    void started(boolean fromSnapshot) {
        started.incrementAndGet();
        if (fromSnapshot) {
            restored.incrementAndGet();
        }
    }

    void atHalf() {
        waiting.countDown();
    }

    boolean isReleased() {
        return released.getCount() == 0;
    }

    /** True for the one source that must fail. */
    boolean failsNow() throws InterruptedException {
        boolean now = fails.compareAndSet(true, false);
        if (now) {
            Thread.sleep(reach.toMillis());
        }
        return now;
    }

    @Override
    public void close() {
        TRIALS.remove(name);
    }
}
