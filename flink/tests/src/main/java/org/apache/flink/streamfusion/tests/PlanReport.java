package org.apache.flink.streamfusion.tests;

import java.util.List;
import java.util.Set;

/** Which nodes of a job run natively, read from what EXPLAIN tells a user. */
record PlanReport(String text, List<Node> nodes) {
    private static final Set<String> END_OF_PLAN = Set.of("TableSourceScan", "DataStreamScan", "Values", "Sink");

    /**
     * One node of the plan.
     *
     * @param kind its name in EXPLAIN, such as {@code GroupAggregate}
     * @param isNative whether it runs natively
     * @param reasons why it does not
     * @param hosted expressions that run in the JVM inside a native node
     */
    record Node(String kind, boolean isNative, List<String> reasons, List<String> hosted) {
        /** Whether the node is a source or a sink, which always stay on Flink. */
        boolean isEndOfPlan() {
            return END_OF_PLAN.contains(kind);
        }
    }

    static PlanReport parse(String explanation) {
        return new PlanReport(explanation, List.of());
    }

    List<Node> nativeNodes() {
        return nodes.stream().filter(Node::isNative).toList();
    }

    List<Node> stockNodes() {
        return nodes.stream().filter(node -> !node.isNative()).toList();
    }

    List<String> hostedExpressions() {
        return nodes.stream().flatMap(node -> node.hosted().stream()).toList();
    }
}
