package org.apache.flink.streamfusion.runtime;

/** A failure of native code that stock Flink does not have. The message names the node. Thrown by the library. */
public final class NativeException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    public NativeException(String message) {
        super(message);
    }

    public NativeException(String message, Throwable cause) {
        super(message, cause);
    }
}
