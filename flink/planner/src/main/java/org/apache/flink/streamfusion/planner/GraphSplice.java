package org.apache.flink.streamfusion.planner;

import org.apache.flink.streamfusion.planner.PlanResponse.Input;
import org.apache.flink.streamfusion.planner.PlanResponse.Output;
import org.apache.flink.streamfusion.planner.PlanResponse.Source;
import org.apache.flink.streamfusion.planner.PlanResponse.Stage;
import org.apache.flink.streamfusion.runtime.NativeException;
import org.apache.flink.table.planner.plan.nodes.exec.ExecEdge;
import org.apache.flink.table.planner.plan.nodes.exec.ExecNode;
import org.apache.flink.table.planner.plan.nodes.exec.ExecNodeGraph;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Puts stages into a graph until it is restored: the nodes that stay on Flink read from stages instead of the nodes
 * that these replace.
 *
 * <p>The same graph serves COMPILE PLAN, EXPLAIN and execution, whose output must not change. So only input edges of nodes
 * that stay are touched, and {@link #restore} puts the original ones back.
 */
final class GraphSplice {

    private final Map<ExecNode<?>, List<ExecEdge>> originals = new IdentityHashMap<>();

    private final ExecNodeGraph graph;

    private GraphSplice(ExecNodeGraph graph) {
        this.graph = graph;
    }

    /**
     * Splices stages in.
     *
     * @param nodes the node of each stage in the order of the response
     */
    static GraphSplice open(
            ExecNodeGraph graph, PlanRequest request, PlanResponse response, List<NativeStageExecNode> nodes) {
        final Map<Integer, NativeStageExecNode> stages = new HashMap<>();
        final Map<Integer, NativeStageExecNode> rowsOf = new HashMap<>();
        final Set<Integer> replaced = new HashSet<>();
        for (int i = 0; i < nodes.size(); i++) {
            final Stage stage = response.stages().get(i);
            stages.put(stage.id(), nodes.get(i));
            replaced.addAll(stage.nodes());
            if (stage.output() == Output.ROWS) {
                rowsOf.put(stage.producer(), nodes.get(i));
            }
        }
        final List<ExecNode<?>> roots = new ArrayList<>();
        for (ExecNode<?> root : graph.getRootNodes()) {
            roots.add(replaced.contains(root.getId()) ? rowsOf(root.getId(), rowsOf) : root);
        }
        for (int i = 0; i < nodes.size(); i++) {
            nodes.get(i).setInputEdges(inputEdges(response.stages().get(i), nodes.get(i), request, stages));
        }
        final Map<ExecNode<?>, List<ExecEdge>> changes = new IdentityHashMap<>();
        for (ExecNode<?> node : request.nodes()) {
            if (!replaced.contains(node.getId())) {
                final List<ExecEdge> edges = rewired(node, replaced, rowsOf);
                if (!edges.equals(node.getInputEdges())) {
                    changes.put(node, edges);
                }
            }
        }
        // Nothing has changed so far, and nothing fails from here on.
        final GraphSplice splice = new GraphSplice(new ExecNodeGraph(graph.getFlinkVersion(), roots));
        changes.forEach(
                (node, edges) -> {
                    splice.originals.put(node, node.getInputEdges());
                    node.setInputEdges(edges);
                });
        return splice;
    }

    /** The graph to translate. Its roots differ only where a query is explained, which has no sink. */
    ExecNodeGraph graph() {
        return graph;
    }

    /** Puts the original edges back. */
    void restore() {
        originals.forEach(ExecNode::setInputEdges);
    }

    private static List<ExecEdge> inputEdges(
            Stage stage, ExecNode<?> target, PlanRequest request, Map<Integer, NativeStageExecNode> stages) {
        final List<ExecEdge> edges = new ArrayList<>();
        for (Input input : stage.inputs()) {
            for (Source producer : input.sources()) {
                final ExecNode<?> source =
                        producer.stage().isPresent() ? stages.get(producer.stage().get()) : request.node(producer.node());
                if (source == null) {
                    throw new NativeException(
                            "Stage " + stage.id() + " reads from a stage that the native plan does not have");
                }
                edges.add(ExecEdge.builder().source(source).target(target).build());
            }
        }
        return edges;
    }

    private static List<ExecEdge> rewired(
            ExecNode<?> target, Set<Integer> replaced, Map<Integer, NativeStageExecNode> rowsOf) {
        final List<ExecEdge> edges = new ArrayList<>();
        for (ExecEdge edge : target.getInputEdges()) {
            final int source = edge.getSource().getId();
            if (!replaced.contains(source)) {
                edges.add(edge);
                continue;
            }
            edges.add(ExecEdge.builder().from(edge).source(rowsOf(source, rowsOf)).build());
        }
        return edges;
    }

    private static NativeStageExecNode rowsOf(int node, Map<Integer, NativeStageExecNode> rowsOf) {
        final NativeStageExecNode stage = rowsOf.get(node);
        if (stage == null) {
            throw new NativeException("The native plan has no rows of node " + node + ", which a node of Flink reads");
        }
        return stage;
    }
}
