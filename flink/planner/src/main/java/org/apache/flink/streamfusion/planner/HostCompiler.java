package org.apache.flink.streamfusion.planner;

import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectReader;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectWriter;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streamfusion.runtime.HostFunction;
import org.apache.flink.streamfusion.runtime.HostLookup;
import org.apache.flink.streamfusion.runtime.NativeException;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.planner.calcite.FlinkTypeFactory;
import org.apache.flink.table.planner.codegen.LookupJoinCodeGenerator;
import org.apache.flink.table.planner.delegation.PlannerBase;
import org.apache.flink.table.planner.plan.nodes.exec.serde.CompiledPlanSerdeUtil;
import org.apache.flink.table.planner.plan.nodes.exec.serde.SerdeContext;
import org.apache.flink.table.planner.plan.nodes.exec.stream.StreamExecLookupJoin;
import org.apache.flink.table.planner.utils.JavaScalaConversionUtil;
import org.apache.flink.table.runtime.generated.GeneratedFunction;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.LogicalTypeRoot;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.util.jackson.JacksonMapperFactory;

import org.apache.calcite.rex.RexNode;

import java.io.IOException;
import java.util.List;

/**
 * Compiles an expression that Rust leaves to the JVM, with Flink's own code generator.
 *
 * <p>The expression is part of a node's JSON and comes back to a {@link RexNode} through Flink's reader of compiled plans, so
 * that functions, user functions included, are found as Flink finds them.
 */
final class HostCompiler {

    private static final ObjectMapper MAPPER = JacksonMapperFactory.createObjectMapper();

    private final ObjectReader reader;
    private final ObjectWriter writer;
    private final ReadableConfig config;
    private final ClassLoader classLoader;

    /**
     * Creates a compiler.
     *
     * @param context of Flink's reader and writer of compiled plans
     * @param config the configuration of the session
     */
    HostCompiler(SerdeContext context, ReadableConfig config, ClassLoader classLoader) {
        this.reader = CompiledPlanSerdeUtil.createJsonObjectReader(context);
        this.writer = CompiledPlanSerdeUtil.createJsonObjectWriter(context);
        this.config = config;
        this.classLoader = classLoader;
    }

    /**
     * Compiles the expression at the host's pointer.
     *
     * @param node the JSON of the host's node
     * @param inputType the row type that the expression's input references count in
     */
    HostFunction compile(PlanResponse.Host host, JsonNode node, RowType inputType) throws IOException {
        final JsonNode expression = node.at(host.pointer());
        if (expression.isMissingNode()) {
            throw new NativeException(
                    "The native plan names " + host.pointer() + " of node " + host.node() + ", which has no such part");
        }
        final RexNode rex = reader.readValue(expression.toString(), RexNode.class);
        final LogicalType outputType = FlinkTypeFactory.toLogicalType(rex.getType());
        final GeneratedFunction<FlatMapFunction<RowData, RowData>> function =
                LookupJoinCodeGenerator.generateCalcMapFunction(
                        config,
                        classLoader,
                        JavaScalaConversionUtil.toScala(List.of(rex)),
                        null,
                        RowType.of(outputType),
                        inputType);
        // Code that needs what only Flink's own operator has compiles nowhere. Better to know here than on a task manager.
        function.compile(classLoader);
        final int[] inputs = host.inputs().stream().mapToInt(Integer::intValue).toArray();
        return new HostFunction(function, inputType, inputs, outputType, resultSpec(RowType.of(outputType)));
    }

    /**
     * Takes the lookup out of the operator that Flink makes of a lookup join.
     *
     * @param join the host's node
     * @param planner which the node is translated by, without its input
     */
    HostLookup compile(PlanResponse.Host host, StreamExecLookupJoin join, PlannerBase planner)
            throws JsonProcessingException {
        final RowType inputType = (RowType) join.getInputEdges().get(0).getOutputType();
        final RowType resultType = (RowType) join.getOutputType();
        final LookupFunctions.Found found = LookupFunctions.of(join, planner);
        final ArrayNode reads = everyField(resultType);
        for (int field = 0; field < inputType.getFieldCount(); field++) {
            reads.setNull(field);
        }
        return new HostLookup(
                found.function(),
                inputType,
                host.inputs().stream().mapToInt(Integer::intValue).toArray(),
                resultType,
                MAPPER.writeValueAsString(reads),
                resultSpec(resultType, reads),
                found.async());
    }

    /** Opens buffers for rows of a type, every field of which is written. */
    private String resultSpec(RowType type) throws JsonProcessingException {
        return resultSpec(type, everyField(type));
    }

    private String resultSpec(RowType type, ArrayNode reads) throws JsonProcessingException {
        final ObjectNode spec = MAPPER.createObjectNode();
        spec.set("input", MAPPER.readTree(writer.writeValueAsString(type)));
        spec.set("reads", reads);
        return MAPPER.writeValueAsString(spec);
    }

    private static ArrayNode everyField(LogicalType row) {
        final ArrayNode fields = MAPPER.createArrayNode();
        for (LogicalType field : row.getChildren()) {
            final ObjectNode read = fields.addObject();
            if (field.is(LogicalTypeRoot.ROW)) {
                read.set("children", everyField(field));
            }
        }
        return fields;
    }
}
