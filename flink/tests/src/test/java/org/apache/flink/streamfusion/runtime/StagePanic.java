package org.apache.flink.streamfusion.runtime;

/** Makes a running stage of this JVM panic. Here because only this package may. */
public final class StagePanic {
    private static final int MAX_INDEX = 64;
    private static final int MAX_GENERATION = 4096;

    private StagePanic() {}

    /**
     * Lets the next batch of an open stage panic, whichever stage that is.
     *
     * @return whether a stage is open
     */
    public static boolean provoke() {
        for (long generation = 1; generation <= MAX_GENERATION; generation++) {
            for (long index = 0; index < MAX_INDEX; index++) {
                if (provoke(generation << Integer.SIZE | index)) {
                    return true;
                }
            }
        }
        return false;
    }

    private static boolean provoke(long handle) {
        try {
            Native.testPanic(handle);
            return true;
        } catch (NativeException notOpen) {
            return false;
        }
    }
}
