package org.apache.flink.streamfusion.runtime;

/** Runs the expressions of a stage that stay in the JVM. Called by the library, on the thread that pushed a batch. */
final class HostCalls {

    /** Evaluates host {@code host} over the rows of a borrowed batch; returns a batch of one column and as many rows. */
    long call(int host, long batch) throws Exception {
        throw new UnsupportedOperationException("host " + host + " over " + batch);
    }
}
