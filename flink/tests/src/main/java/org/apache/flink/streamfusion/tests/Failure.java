package org.apache.flink.streamfusion.tests;

import org.apache.flink.util.SerializedThrowable;

/**
 * Why a job failed, as its user sees it: the innermost exception.
 *
 * @param type the class name
 * @param message the message, or null
 */
record Failure(String type, String message) {

    static Failure of(Throwable thrown) {
        Throwable root = deserialized(thrown);
        while (root.getCause() != null && root.getCause() != root) {
            root = deserialized(root.getCause());
        }
        return new Failure(root.getClass().getName(), root.getMessage());
    }

    private static Throwable deserialized(Throwable thrown) {
        return thrown instanceof SerializedThrowable serialized
                ? serialized.deserializeError(Failure.class.getClassLoader())
                : thrown;
    }
}
