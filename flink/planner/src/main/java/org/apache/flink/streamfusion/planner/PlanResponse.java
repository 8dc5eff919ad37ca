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
     * @param inputs one, or two if the first node tells two apart, the left one first
     * @param exchange the exchange after the last node
     * @param stateful whether a node keeps keyed state
     * @param collects whether a node collects rows of several batches without keyed state
     */
    record Stage(
            int id,
            List<Integer> nodes,
            int anchor,
            List<Input> inputs,
            Output output,
            Optional<Exchange> exchange,
            List<Host> hosts,
            boolean stateful,
            boolean collects,
            String spec) {

        /** The node whose rows the stage emits. */
        int producer() {
            return nodes.isEmpty() ? anchor : nodes.get(nodes.size() - 1);
        }
    }

    /**
     * One input of a stage.
     *
     * @param sources what is merged into it: all rows or all batches
     * @param rowType the node whose output type is the type of its rows
     * @param fragments whether fragments may arrive, of this job or of the checkpoint it is restored from
     * @param entry the columns to write as JSON, or null if it is batches
     */
    record Input(List<Source> sources, int rowType, boolean fragments, String entry) {

        boolean isBatches() {
            return sources.get(0).stage().isPresent();
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
    record Source(int node, Optional<Integer> stage) {}

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
        final List<Input> inputs = new ArrayList<>();
        inputs.add(input(id, json)); // hardly any stage has another one
        if (json.path("second").isObject()) {
            inputs.add(input(id, json.path("second")));
        }
        return new Stage(
                id,
                list(json.required("nodes"), JsonNode::asInt),
                json.required("anchor").asInt(),
                List.copyOf(inputs),
                output(json.required("output").asText()),
                Optional.of(json.path("exchange"))
                        .filter(JsonNode::isObject)
                        .map(PlanResponse::exchange),
                list(json.required("hosts"), PlanResponse::host),
                json.required("stateful").asBoolean(),
                json.required("collects").asBoolean(),
                json.required("spec").asText());
    }

    private static Exchange exchange(JsonNode json) {
        return new Exchange(list(json.required("keys"), JsonNode::asInt), json.path("fragments").asBoolean());
    }

    private static Input input(int stage, JsonNode json) {
        final List<Source> sources = list(json.required("inputs"), PlanResponse::source);
        if (sources.isEmpty() || sources.stream().map(s -> s.stage().isPresent()).distinct().count() > 1) {
            throw new NativeException("Stage " + stage + " of the native plan has no inputs or inputs of two kinds");
        }
        return new Input(
                sources,
                json.required("rowType").asInt(),
                json.path("fragmentInput").asBoolean(),
                json.path("entry").isArray() ? json.path("entry").toString() : null);
    }

    private static Source source(JsonNode json) {
        return new Source(
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
