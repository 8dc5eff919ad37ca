package org.apache.flink.streamfusion.tests;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Which nodes of a job run natively, read from what EXPLAIN tells a user. */
public record PlanReport(String text, List<Node> nodes) {
    private static final Set<String> END_OF_PLAN = Set.of("TableSourceScan", "DataStreamScan", "Values", "Sink");

    private static final String SECTION = "== StreamFusion ==";
    private static final Pattern NODE = Pattern.compile("\\s*\\d+  (native, stage \\d+|Flink)\\s+(\\w+).*");
    private static final String REASON = "stays on Flink: ";
    private static final String HOSTED = "in the JVM: ";

    /**
     * One node of the plan.
     *
     * @param kind its name in EXPLAIN, such as {@code GroupAggregate}
     * @param isNative whether it runs natively
     * @param reasons why it does not
     * @param hosted expressions that run in the JVM inside a native node
     */
    public record Node(String kind, boolean isNative, List<String> reasons, List<String> hosted) {
        /** Whether the node is a source or a sink, which always stay on Flink. */
        public boolean isEndOfPlan() {
            return END_OF_PLAN.contains(kind);
        }
    }

    /** Reads the section that StreamFusion adds to an explanation; no section, no native nodes. */
    public static PlanReport parse(String explanation) {
        int start = explanation.indexOf(SECTION);
        List<Node> nodes = new ArrayList<>();
        if (start >= 0) {
            explanation.substring(start).lines().forEach(line -> addLine(nodes, line));
        }
        return new PlanReport(explanation, nodes);
    }

    private static void addLine(List<Node> nodes, String line) {
        Matcher node = NODE.matcher(line);
        if (node.matches()) {
            nodes.add(new Node(node.group(2), !node.group(1).equals("Flink"), new ArrayList<>(), new ArrayList<>()));
            return;
        }
        String detail = line.strip();
        if (detail.startsWith(REASON)) {
            last(nodes).reasons().add(detail.substring(REASON.length()));
        } else if (detail.startsWith(HOSTED)) {
            String expression = detail.substring(HOSTED.length());
            last(nodes).hosted().add(expression.substring(0, expression.indexOf(':')));
        }
    }

    private static Node last(List<Node> nodes) {
        return nodes.get(nodes.size() - 1);
    }

    /** The plan as it runs, without Flink's earlier forms of it. */
    public String executionPlan() {
        int start = text.indexOf("== Optimized Execution Plan ==");
        return start < 0 ? text : text.substring(start);
    }

    /** What StreamFusion says of the plan; all of the explanation if that is nothing. */
    public String decisions() {
        int start = text.indexOf(SECTION);
        return start < 0 ? text : text.substring(start);
    }

    public List<Node> nativeNodes() {
        return nodes.stream().filter(Node::isNative).toList();
    }

    public List<Node> stockNodes() {
        return nodes.stream().filter(node -> !node.isNative()).toList();
    }

    public List<String> hostedExpressions() {
        return nodes.stream().flatMap(node -> node.hosted().stream()).toList();
    }
}
