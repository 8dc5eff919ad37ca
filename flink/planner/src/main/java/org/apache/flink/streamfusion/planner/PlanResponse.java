package org.apache.flink.streamfusion.planner;

import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streamfusion.runtime.NativeException;
import org.apache.flink.util.jackson.JacksonMapperFactory;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;

/**
 * The answer of Rust to a {@link PlanRequest}; fields as in {@code docs/design/boundary.md}.
 *
 * @param summary one line for the log
 * @param explanation lines for EXPLAIN
 */
record PlanResponse(String summary, String explanation, List<Stage> stages) {

    private static final ObjectMapper MAPPER = JacksonMapperFactory.createObjectMapper();

    /**
     * A chain of nodes that becomes one Flink operator.
     *
     * @param nodes ids in order, an exchange last; empty for a stage that only enters or exits
     * @param exchange the exchange after the last node
     * @param fragmentInput whether fragments may arrive, of this job or of the checkpoint it is restored from
     * @param stateful whether a node keeps keyed state
     * @param entry the columns to write as JSON, or null if the input is batches
     */
    record Stage(
            int id,
            List<Integer> nodes,
            int anchor,
            List<Input> inputs,
            int rowType,
            Output output,
            Optional<Exchange> exchange,
            boolean fragmentInput,
            String entry,
            List<Host> hosts,
            boolean stateful,
            String spec) {

        /** The node whose rows the stage emits. */
        int producer() {
            return nodes.isEmpty() ? anchor : nodes.get(nodes.size() - 1);
        }

        boolean readsBatches() {
            return inputs.get(0).stage().isPresent();
        }
    }

    /**
     * How the output of a stage is distributed.
     *
     * @param keys the columns that are hashed; none for a singleton
     * @param fragments whether batches travel as fragments, which a checkpoint may store
     */
    record Exchange(List<Integer> keys, boolean fragments) {}

    /** Rows of a Flink node or, if it names a stage, the batches of that stage. */
    record Input(int node, Optional<Integer> stage) {}

    /** An expression that runs in the JVM: where it is in the JSON of its node, and which input fields it reads. */
    record Host(int node, String pointer, List<Integer> inputs) {}

    /** What a stage emits. */
    enum Output {
        ROWS,
        BATCHES
    }

    static PlanResponse parse(String text) throws JsonProcessingException {
        final JsonNode json = MAPPER.readTree(text);
        return new PlanResponse(
                json.required("summary").asText(),
                json.path("explain").asText(""),
                list(json.required("stages"), PlanResponse::stage));
    }

    private static Stage stage(JsonNode json) {
        final int id = json.required("id").asInt();
        final List<Input> inputs = list(json.required("inputs"), PlanResponse::input);
        if (inputs.isEmpty() || inputs.stream().map(i -> i.stage().isPresent()).distinct().count() > 1) {
            throw new NativeException("Stage " + id + " of the native plan has no inputs or inputs of two kinds");
        }
        return new Stage(
                id,
                list(json.required("nodes"), JsonNode::asInt),
                json.required("anchor").asInt(),
                inputs,
                json.required("rowType").asInt(),
                output(json.required("output").asText()),
                Optional.of(json.path("exchange"))
                        .filter(JsonNode::isObject)
                        .map(PlanResponse::exchange),
                json.path("fragmentInput").asBoolean(),
                json.path("entry").isArray() ? json.path("entry").toString() : null,
                list(json.required("hosts"), PlanResponse::host),
                json.required("stateful").asBoolean(),
                json.required("spec").asText());
    }

    private static Exchange exchange(JsonNode json) {
        return new Exchange(list(json.required("keys"), JsonNode::asInt), json.path("fragments").asBoolean());
    }

    private static Input input(JsonNode json) {
        return new Input(
                json.required("node").asInt(),
                Optional.of(json.path("stage")).filter(JsonNode::isNumber).map(JsonNode::asInt));
    }

    private static Host host(JsonNode json) {
        return new Host(
                json.required("node").asInt(),
                json.required("pointer").asText(),
                list(json.required("inputs"), JsonNode::asInt));
    }

    private static Output output(String text) {
        return switch (text) {
            case "rows" -> Output.ROWS;
            case "batches" -> Output.BATCHES;
            default -> throw new NativeException("The native plan has a stage with the unknown output " + text);
        };
    }

    private static <T> List<T> list(JsonNode array, Function<JsonNode, T> element) {
        final List<T> list = new ArrayList<>(array.size());
        array.forEach(json -> list.add(element.apply(json)));
        return List.copyOf(list);
    }
}
