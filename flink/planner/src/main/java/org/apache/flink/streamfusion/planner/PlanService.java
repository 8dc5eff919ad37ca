package org.apache.flink.streamfusion.planner;

import org.apache.flink.streamfusion.runtime.Native;
import org.apache.flink.streamfusion.runtime.NativeLibrary;

import java.util.Optional;

/** Decides what runs natively. In jobs that is Rust; unit tests put their own answers in its place. */
interface PlanService {

    /** Why nothing can run natively in this process, as a sentence without final stop; empty if something can. */
    Optional<String> unavailableReason();

    /** Takes the request and returns the response that {@code docs/design/boundary.md} describes. */
    String plan(String request);

    /** The service in the native library. */
    static PlanService nativeLibrary() {
        return new PlanService() {
            @Override
            public Optional<String> unavailableReason() {
                return NativeLibrary.unavailableReason();
            }

            @Override
            public String plan(String request) {
                return Native.plan(request);
            }
        };
    }
}
