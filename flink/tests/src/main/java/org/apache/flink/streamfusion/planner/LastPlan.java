package org.apache.flink.streamfusion.planner;

import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.internal.TableEnvironmentImpl;

/** What was decided about a job that has been started: EXPLAIN says it too, but plans the statement once more, which costs as much as a small job. */
public final class LastPlan {
    private LastPlan() {}

    /** The section of EXPLAIN about the statement that the environment has planned last; empty where that was left to stock Flink. */
    public static String explanation(TableEnvironment environment) {
        return ((NativeStreamPlanner) ((TableEnvironmentImpl) environment).getPlanner()).withExplanation("");
    }
}
