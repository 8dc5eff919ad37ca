package org.apache.flink.streamfusion.planner;

import org.apache.flink.streamfusion.planner.NativeStageExecNode.Distribution;
import org.apache.flink.streamfusion.planner.NativeStageExecNode.Naming;
import org.apache.flink.streamfusion.planner.PlanResponse.Output;
import org.apache.flink.streamfusion.planner.PlanResponse.Stage;
import org.apache.flink.streamfusion.runtime.NativeException;
import org.apache.flink.streamfusion.runtime.StageConfig;
import org.apache.flink.table.planner.delegation.PlannerBase;
import org.apache.flink.table.planner.plan.nodes.exec.ExecNode;
import org.apache.flink.table.planner.plan.nodes.exec.ExecNodeBase;
import org.apache.flink.table.planner.plan.nodes.exec.ExecNodeContext;
import org.apache.flink.table.planner.plan.nodes.exec.ExecNodeMetadata;
import org.apache.flink.table.planner.plan.nodes.exec.InputProperty.DistributionType;
import org.apache.flink.table.planner.plan.nodes.exec.stream.StreamExecExchange;
import org.apache.flink.table.planner.plan.nodes.exec.stream.StreamExecLookupJoin;
import org.apache.flink.table.planner.plan.nodes.exec.stream.StreamExecUnion;
import org.apache.flink.table.planner.plan.utils.ExecNodeMetadataUtil;
import org.apache.flink.table.types.logical.RowType;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

/** Builds the exec node of a stage: its configuration for the task managers, and what it takes over from its anchor. */
final class StageNodes {

    /** Whether the graph comes from a compiled plan, which decides whether operators get a uid. */
    enum Origin {
        STATEMENT,
        COMPILED_PLAN
    }

    /** How batches are closed where rows enter, and how many bytes of state in RocksDB each stage has in memory at most. */
    record Limits(int maxRows, long latencyMs, long stateCacheBytes, boolean byHandle) {}

    private final PlanRequest request;
    private final HostCompiler hosts;
    private final PlannerBase planner;
    private final Limits limits;
    private final Origin origin;

    StageNodes(
            PlanRequest request, HostCompiler hosts, PlannerBase planner, Limits limits, Origin origin) {
        this.request = request;
        this.hosts = hosts;
        this.planner = planner;
        this.limits = limits;
        this.origin = origin;
    }

    /** Builds the nodes of all stages in the order of the response, without input edges. Compiles what runs in the JVM. */
    List<NativeStageExecNode> build(PlanResponse response) throws IOException {
        final List<NativeStageExecNode> nodes = new ArrayList<>();
        for (Stage stage : response.stages()) {
            nodes.add(build(stage));
        }
        return nodes;
    }

    private NativeStageExecNode build(Stage stage) throws IOException {
        final ExecNode<?> anchor = request.node(stage.anchor());
        final RowType outputType = rowType(stage.producer());
        final Naming naming = naming(stage, anchor);
        final NativeStageExecNode node =
                new NativeStageExecNode(
                        anchor.getId(),
                        context(anchor),
                        ((ExecNodeBase<?>) anchor).getPersistedConfig(),
                        stage.inputs().stream().map(input -> input.sources().size()).toList(),
                        outputType,
                        naming,
                        stageConfig(stage, naming.description(), outputType),
                        stage.output(),
                        stage.exchange(),
                        distribution(stage));
        node.setCompiled(origin == Origin.COMPILED_PLAN);
        return node;
    }

    private StageConfig stageConfig(Stage stage, String description, RowType outputType) throws IOException {
        final StageConfig.Builder config =
                StageConfig.builder(description, stage.spec())
                        .maxBatchRows(limits.maxRows())
                        .latencyMs(limits.latencyMs())
                        .stateCacheBytes(limits.stateCacheBytes());
        if (!limits.byHandle()) {
            config.encoded();
        }
        stage.inputs().forEach(input -> config.input(input(input)));
        if (stage.output() == Output.ROWS) {
            config.rowOutput(outputType);
        }
        stage.exchange()
                .ifPresent(
                        exchange -> {
                            if (exchange.fragments()) {
                                config.fragmentExchange();
                            } else {
                                config.exchange();
                            }
                        });
        if (stage.stateful()) {
            config.stateful();
        }
        if (stage.collects()) {
            config.collects();
        }
        for (PlanResponse.Host host : stage.hosts()) {
            final ExecNode<?> node = request.node(host.node());
            if (stage.inputs().size() > 1 && host.node() == stage.nodes().get(0)) {
                throw new NativeException("An expression over two inputs cannot run in the JVM: " + node.getDescription());
            }
            if (node instanceof StreamExecLookupJoin join) {
                config.host(hosts.compile(host, join, planner));
                continue;
            }
            final RowType inputType = (RowType) node.getInputEdges().get(0).getOutputType();
            config.host(hosts.compile(host, request.json(host.node()), inputType));
        }
        return config.build();
    }

    private StageConfig.Input input(PlanResponse.Input input) {
        if (!input.isBatches()) {
            return StageConfig.Input.rows(rowType(input.rowType()), input.entry());
        }
        return input.fragments() ? StageConfig.Input.fragmented() : StageConfig.Input.batches();
    }

    private RowType rowType(int node) {
        return (RowType) request.node(node).getOutputType();
    }

    /** The type and version that the anchor has in its plan, which may be older than what its class would write. */
    private ExecNodeContext context(ExecNode<?> anchor) {
        final String type = request.json(anchor.getId()).path("type").asText();
        final ExecNodeContext context =
                type.equals(PlanRequest.UNSERIALIZABLE)
                        ? ExecNodeContext.newContext(anchor.getClass())
                        : new ExecNodeContext(type);
        return context.withId(anchor.getId());
    }

    /** The exchange itself leaves the operator before it alone. */
    private Distribution distribution(Stage stage) {
        final boolean singleton =
                stage.nodes().stream()
                        .map(request::node)
                        .filter(node -> !(node instanceof StreamExecExchange))
                        .flatMap(node -> node.getInputProperties().stream())
                        .anyMatch(p -> p.getRequiredDistribution().getType() == DistributionType.SINGLETON);
        return singleton ? Distribution.SINGLETON : Distribution.ANY;
    }

    private Naming naming(Stage stage, ExecNode<?> anchor) {
        final String anchorName = anchor.getClass().getSimpleName().replace("StreamExec", "");
        if (stage.nodes().isEmpty()) {
            final String way = stage.output() == Output.ROWS ? "Exit" : "Entry";
            // The anchor has an operator of its own, and several stages may have one anchor.
            return new Naming(
                    "native-" + way.toLowerCase(Locale.ROOT),
                    "-" + stage.id(),
                    way,
                    "Native(" + way + ": " + anchor.getDescription() + ")");
        }
        final String chain =
                stage.nodes().stream()
                        .map(id -> request.node(id).getDescription())
                        .collect(Collectors.joining(" -> ", "Native(", ")"));
        return new Naming(uidName(anchor), "", anchorName, chain);
    }

    /**
     * The name that Flink would put into the uid of the anchor's operator, so that the uid stays the same. A union is no
     * operator on Flink.
     */
    private static String uidName(ExecNode<?> anchor) {
        if (anchor instanceof StreamExecUnion) {
            return "native-union";
        }
        final ExecNodeMetadata metadata = metadata(anchor);
        if (metadata == null || metadata.producedTransformations().length == 0) {
            throw new NativeException(
                    "A " + anchor.getClass().getSimpleName() + " cannot run natively: its operator has no name for a uid");
        }
        return metadata.producedTransformations()[0];
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static ExecNodeMetadata metadata(ExecNode<?> node) {
        return ExecNodeMetadataUtil.latestAnnotation((Class) node.getClass());
    }
}
