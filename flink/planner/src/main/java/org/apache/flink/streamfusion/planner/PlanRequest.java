package org.apache.flink.streamfusion.planner;

import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectWriter;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streamfusion.runtime.NativeException;
import org.apache.flink.table.api.config.TableConfigOptions;
import org.apache.flink.table.planner.plan.nodes.exec.ExecEdge;
import org.apache.flink.table.planner.plan.nodes.exec.ExecNode;
import org.apache.flink.table.planner.plan.nodes.exec.ExecNodeGraph;
import org.apache.flink.table.planner.plan.nodes.exec.stream.StreamExecLegacySink;
import org.apache.flink.table.planner.plan.nodes.exec.stream.StreamExecSink;
import org.apache.flink.table.planner.plan.nodes.exec.visitor.AbstractExecNodeExactlyOnceVisitor;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.util.ExceptionUtils;
import org.apache.flink.util.jackson.JacksonMapperFactory;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * A plan as text for Rust, and the way back from the ids in the answer to Flink's nodes.
 *
 * <p>Each node is what Flink writes into a compiled plan, inputs before their readers. A node that Flink cannot write keeps
 * its place with the reason, so that the rest of the plan can still run natively.
 */
final class PlanRequest {

    static final String UNSERIALIZABLE = "unserializable";

    private static final ObjectMapper MAPPER = JacksonMapperFactory.createObjectMapper();

    private final Map<Integer, ExecNode<?>> nodes = new LinkedHashMap<>();
    private final Map<Integer, JsonNode> nodeJson = new LinkedHashMap<>();
    private final String text;

    private PlanRequest(
            ExecNodeGraph graph, ObjectWriter writer, String flinkVersion, Map<String, String> config, boolean unaligned)
            throws JsonProcessingException {
        collect(graph);
        final ObjectNode request = MAPPER.createObjectNode();
        request.put("flinkVersion", flinkVersion);
        final ObjectNode configJson = request.putObject("config");
        config.forEach(configJson::put);
        request.put("unaligned", unaligned);
        final ArrayNode nodesJson = request.putArray("nodes");
        final ArrayNode edgesJson = request.putArray("edges");
        for (ExecNode<?> node : nodes.values()) {
            final JsonNode json = toJson(node, writer);
            nodeJson.put(node.getId(), json);
            nodesJson.add(json);
            for (ExecEdge edge : node.getInputEdges()) {
                edgesJson.addObject().put("source", edge.getSource().getId()).put("target", node.getId());
            }
        }
        addResults(graph, nodesJson, edgesJson);
        addZoneRules(config, configJson);
        this.text = MAPPER.writeValueAsString(request);
    }

    /**
     * Writes a graph.
     *
     * @param writer Flink's writer of compiled plans
     * @param config every option that is set, as text
     * @param unaligned whether checkpoints may be unaligned
     */
    static PlanRequest of(
            ExecNodeGraph graph, ObjectWriter writer, String flinkVersion, Map<String, String> config, boolean unaligned)
            throws JsonProcessingException {
        return new PlanRequest(graph, writer, flinkVersion, config, unaligned);
    }

    /** The request as Rust reads it. */
    String text() {
        return text;
    }

    /** The nodes of the graph, inputs before their readers. */
    Iterable<ExecNode<?>> nodes() {
        return nodes.values();
    }

    ExecNode<?> node(int id) {
        final ExecNode<?> node = nodes.get(id);
        if (node == null) {
            throw new NativeException("The native plan names node " + id + ", which the job does not have");
        }
        return node;
    }

    /** What the request says of a node. */
    JsonNode json(int id) {
        node(id);
        return nodeJson.get(id);
    }

    private void collect(ExecNodeGraph graph) {
        final AbstractExecNodeExactlyOnceVisitor visitor =
                new AbstractExecNodeExactlyOnceVisitor() {
                    @Override
                    protected void visitNode(ExecNode<?> node) {
                        visitInputs(node);
                        nodes.put(node.getId(), node);
                    }
                };
        graph.getRootNodes().forEach(root -> root.accept(visitor));
    }

    /** Gives a query that is only explained the sink that it gets when it runs: what nobody reads is not planned. */
    private void addResults(ExecNodeGraph graph, ArrayNode nodesJson, ArrayNode edgesJson) {
        int id = Collections.max(nodes.keySet());
        for (ExecNode<?> root : graph.getRootNodes()) {
            if (!(root instanceof StreamExecSink || root instanceof StreamExecLegacySink)) {
                id++;
                final ObjectNode json = nodesJson.addObject();
                json.put("id", id);
                json.put("type", "stream-exec-sink_1");
                json.put("description", "Sink(the result of the query)");
                json.set("outputType", nodeJson.get(root.getId()).get("outputType"));
                edgesJson.addObject().put("source", root.getId()).put("target", id);
            }
        }
    }

    /** Tells the rules of each time zone that the session or a node names. */
    private void addZoneRules(Map<String, String> config, ObjectNode configJson) {
        final String option = TableConfigOptions.LOCAL_TIME_ZONE.key();
        final Set<String> zones = new TreeSet<>();
        zones.add(config.getOrDefault(option, TableConfigOptions.LOCAL_TIME_ZONE.defaultValue()));
        for (JsonNode json : nodeJson.values()) {
            final JsonNode zone = json.path("configuration").path(option);
            if (zone.isTextual()) {
                zones.add(zone.asText());
            }
        }
        for (String zone : zones) {
            ZoneRulesText.ofOption(zone).ifPresent(rules -> configJson.put(ZoneRulesText.OPTION_PREFIX + zone, rules));
        }
    }

    private static JsonNode toJson(ExecNode<?> node, ObjectWriter writer) {
        try {
            return MAPPER.readTree(writer.writeValueAsString(node));
        } catch (JsonProcessingException | RuntimeException e) {
            final ObjectNode json = MAPPER.createObjectNode();
            json.put("id", node.getId());
            json.put("type", UNSERIALIZABLE);
            json.put("description", node.getDescription());
            json.put("reason", reason(node, e));
            json.set("outputType", typeJson(node.getOutputType(), writer));
            return json;
        }
    }

    /** The type as in a compiled plan, or null if Flink cannot write it there either. */
    private static JsonNode typeJson(LogicalType type, ObjectWriter writer) {
        try {
            return MAPPER.readTree(writer.writeValueAsString(type));
        } catch (JsonProcessingException | RuntimeException e) {
            return MAPPER.nullNode();
        }
    }

    private static String reason(ExecNode<?> node, Exception e) {
        final Throwable cause = ExceptionUtils.stripException(e, JsonProcessingException.class);
        final String message = cause.getMessage() == null ? cause.getClass().getName() : cause.getMessage();
        return "Flink cannot write a " + node.getClass().getSimpleName() + " into a compiled plan: " + firstSentence(message);
    }

    private static String firstSentence(String message) {
        final String line = message.lines().findFirst().orElse(message).strip();
        return line.endsWith(".") ? line.substring(0, line.length() - 1) : line;
    }
}
