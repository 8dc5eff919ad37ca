package org.apache.flink.streamfusion.nexmark;

/**
 * The random numbers of one event, which depend on the seed and the event's number alone.
 *
 * <p>SplitMix64: cheap to start anew for each event, and numbers of neighbouring events have nothing in common.
 */
final class EventRandom {
    private static final long STEP = 0x9e3779b97f4a7c15L;
    private static final double DOUBLE_UNIT = 0x1.0p-53;
    private static final int BITS_PER_LETTER = 5;
    private static final int LETTERS_PER_LONG = Long.SIZE / BITS_PER_LETTER;
    private static final int LETTERS = 26;

    private final long seed;
    private long state;

    EventRandom(long seed) {
        this.seed = mix(seed + STEP);
    }

    /** Begins the numbers of an event. */
    void start(long event) {
        state = mix(seed ^ event * STEP);
    }

    long nextLong() {
        state += STEP;
        return mix(state);
    }

    /** At least 0 and below the bound, which is positive and far below 2^53. */
    long below(long bound) {
        return (long) (nextDouble() * bound);
    }

    /** At least 0 and below 1. */
    double nextDouble() {
        return (nextLong() >>> (Long.SIZE - 53)) * DOUBLE_UNIT;
    }

    /** Whether the hot one is chosen: always but once in {@code ratio} times. */
    boolean isHot(int ratio) {
        return below(ratio) > 0;
    }

    /** Fills a part of the array with small letters. */
    void letters(byte[] text, int from, int to) {
        long bits = 0;
        int left = 0;
        for (int i = from; i < to; i++) {
            if (left == 0) {
                bits = nextLong();
                left = LETTERS_PER_LONG;
            }
            text[i] = (byte) ('a' + ((bits & 31) * LETTERS >> BITS_PER_LETTER));
            bits >>>= BITS_PER_LETTER;
            left--;
        }
    }

    private static long mix(long value) {
        long mixed = (value ^ value >>> 30) * 0xbf58476d1ce4e5b9L;
        mixed = (mixed ^ mixed >>> 27) * 0x94d049bb133111ebL;
        return mixed ^ mixed >>> 31;
    }
}
