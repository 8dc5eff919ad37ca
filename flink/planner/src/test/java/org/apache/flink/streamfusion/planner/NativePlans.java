package org.apache.flink.streamfusion.planner;

import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

import java.util.ArrayList;
import java.util.List;

/** Answers in the form that Rust gives them. Their stages can be planned, not run. */
final class NativePlans {

    static final String EXPLANATION = "the native part\n";

    private NativePlans() {}

    /** Source, then calc and exchange in one stage, then the aggregate in another, then the sink. */
    static String aggregateInTwoStages(String request) {
        final int[] id = ids(request);
        return response(
                """
                {"id": 0, "nodes": [%d, %d], "anchor": %d, "inputs": [{"node": %d, "stage": null}], "rowType": %d,
                 "output": "batches", "exchange": {"keys": [0]}, "entry": [{}, {}, null, null], "hosts": [], "stateful": false, "collects": false, "spec": "s0"},
                {"id": 1, "nodes": [%d], "anchor": %d, "inputs": [{"node": %d, "stage": 0}], "rowType": %d,
                 "output": "rows", "exchange": null, "entry": [null, null], "hosts": [], "stateful": true, "collects": false, "spec": "s1"}
                """
                        .formatted(id[1], id[2], id[1], id[0], id[0], id[3], id[3], id[2], id[2]));
    }

    /** The same, but the aggregate emits batches, and a stage without nodes makes rows of them. */
    static String aggregateThenExit(String request) {
        final int aggregate = ids(request)[3];
        final String exit =
                """
                , {"id": 2, "nodes": [], "anchor": %1$d, "inputs": [{"node": %1$d, "stage": 1}], "rowType": %1$d,
                 "output": "rows", "exchange": null, "entry": null, "hosts": [], "stateful": false, "collects": false, "spec": "s2"}]}"""
                        .formatted(aggregate);
        final String stages = aggregateInTwoStages(request).replace("\"rows\"", "\"batches\"");
        return stages.substring(0, stages.lastIndexOf("]}")) + exit;
    }

    /** Source, then a calc with the projections at {@code pointers} in the JVM, then the sink. */
    static String calcWithHosts(String request, String... hosts) {
        final int[] id = ids(request);
        final String hostList = String.join(", ", hosts).replace("NODE", Integer.toString(id[1]));
        return response(
                """
                {"id": 0, "nodes": [%d], "anchor": %d, "inputs": [{"node": %d, "stage": null}], "rowType": %d,
                 "output": "rows", "exchange": null, "entry": [{}, {}, {}, null], "hosts": [%s], "stateful": false, "collects": false, "spec": "s0"}
                """
                        .formatted(id[1], id[1], id[0], id[0], hostList));
    }

    /** The join alone, from rows of Flink to rows.. */
    static String join(String request) {
        final int join = idOf(request, "stream-exec-join");
        final List<Integer> inputs = inputsOf(request, join);
        return response(
                """
                {"id": 0, "nodes": [%1$d], "anchor": %1$d, "inputs": [{"node": %2$d, "stage": null}], "rowType": %2$d, "entry": [{}, {}],
                 "second": {"inputs": [{"node": %3$d, "stage": null}], "rowType": %3$d, "fragmentInput": false, "entry": [{}, {}]},
                 "output": "rows", "exchange": null, "hosts": [], "stateful": true, "collects": false, "spec": "s0"}
                """
                        .formatted(join, inputs.get(0), inputs.get(1)));
    }

    /** The last node of a type. */
    private static int idOf(String request, String type) {
        int id = -1;
        for (JsonNode node : json(request).get("nodes")) {
            if (node.get("type").asText().startsWith(type)) {
                id = node.get("id").asInt();
            }
        }
        return id;
    }

    private static List<Integer> inputsOf(String request, int node) {
        final List<Integer> inputs = new ArrayList<>();
        for (JsonNode edge : json(request).get("edges")) {
            if (edge.get("target").asInt() == node) {
                inputs.add(edge.get("source").asInt());
            }
        }
        return inputs;
    }

    /** One stage with the given beginning. */
    static String stage(String fields) {
        return response(
                "{\"id\": 0, " + fields + ", \"rowType\": 1, \"output\": \"rows\", \"exchange\": null, \"entry\": [],"
                        + " \"hosts\": [], \"stateful\": false, \"collects\": false, \"spec\": \"\"}");
    }

    static String response(String stages) {
        return "{\"summary\": \"some nodes run natively\", \"explain\": \"the native part\\n\", \"nodes\": [], \"stages\": ["
                + stages
                + "]}";
    }

    /** The ids of the nodes of a request in its order. */
    private static int[] ids(String request) {
        final JsonNode nodes = json(request).get("nodes");
        final int[] ids = new int[nodes.size()];
        for (int i = 0; i < ids.length; i++) {
            ids[i] = nodes.get(i).get("id").asInt();
        }
        return ids;
    }

    private static JsonNode json(String request) {
        try {
            return new ObjectMapper().readTree(request);
        } catch (JsonProcessingException e) {
            throw new IllegalArgumentException(e);
        }
    }
}
