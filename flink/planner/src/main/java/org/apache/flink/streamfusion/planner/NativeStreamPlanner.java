package org.apache.flink.streamfusion.planner;

import org.apache.flink.api.dag.Transformation;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.streamfusion.planner.StageNodes.Limits;
import org.apache.flink.streamfusion.planner.StageNodes.Origin;
import org.apache.flink.streamfusion.runtime.StageConfig;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.ExplainDetail;
import org.apache.flink.table.api.ExplainFormat;
import org.apache.flink.table.api.TableConfig;
import org.apache.flink.table.api.ValidationException;
import org.apache.flink.table.catalog.CatalogManager;
import org.apache.flink.table.catalog.FunctionCatalog;
import org.apache.flink.table.delegation.Executor;
import org.apache.flink.table.delegation.InternalPlan;
import org.apache.flink.table.module.ModuleManager;
import org.apache.flink.table.operations.Operation;
import org.apache.flink.table.planner.delegation.StreamPlanner;
import org.apache.flink.table.planner.plan.nodes.exec.ExecNodeGraph;
import org.apache.flink.table.planner.plan.nodes.exec.serde.CompiledPlanSerdeUtil;
import org.apache.flink.table.planner.plan.nodes.exec.serde.SerdeContext;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import java.time.Duration;
import java.util.List;
import java.util.Optional;

/**
 * Flink's planner for streaming, with one step more: before a graph is translated, Rust is asked which of its nodes run
 * natively, and these become stages.
 *
 * <p>Ordinary statements, compiled plans and EXPLAIN all translate their graph here. Whatever fails in this step is logged
 * once and the job runs on stock Flink; what fails in Flink's own translation fails as ever.
 */
final class NativeStreamPlanner extends StreamPlanner {

    private static final Logger LOG = LoggerFactory.getLogger(NativeStreamPlanner.class);

    private final ClassLoader classLoader;
    private final PlanService service;
    private Origin origin = Origin.STATEMENT;
    private String explanation = "";

    NativeStreamPlanner(
            Executor executor,
            TableConfig tableConfig,
            ModuleManager moduleManager,
            FunctionCatalog functionCatalog,
            CatalogManager catalogManager,
            ClassLoader classLoader,
            PlanService service) {
        super(executor, tableConfig, moduleManager, functionCatalog, catalogManager, classLoader);
        this.classLoader = classLoader;
        this.service = service;
    }

    @Override
    public List<Transformation<?>> translateToPlan(ExecNodeGraph graph) {
        final Optional<GraphSplice> splice = splice(graph);
        if (splice.isEmpty()) {
            return super.translateToPlan(graph);
        }
        try {
            return super.translateToPlan(splice.get().graph());
        } finally {
            splice.get().restore();
        }
    }

    @Override
    public List<Transformation<?>> translatePlan(InternalPlan plan) {
        origin = Origin.COMPILED_PLAN;
        try {
            return super.translatePlan(plan);
        } finally {
            origin = Origin.STATEMENT;
        }
    }

    @Override
    @SuppressWarnings("overrides") // Scala leaves the mark of a variable number of arguments out
    public String explain(List<Operation> operations, ExplainFormat format, ExplainDetail... extraDetails) {
        return withExplanation(super.explain(operations, format, extraDetails));
    }

    @Override
    @SuppressWarnings("overrides") // Scala leaves the mark of a variable number of arguments out
    public String explainPlan(InternalPlan plan, ExplainDetail... extraDetails) {
        origin = Origin.COMPILED_PLAN;
        try {
            return withExplanation(super.explainPlan(plan, extraDetails));
        } finally {
            origin = Origin.STATEMENT;
        }
    }

    /** Adds what was decided about the graph that was translated last. */
    String withExplanation(String stock) {
        return explanation.isEmpty()
                ? stock
                : stock + System.lineSeparator() + "== StreamFusion ==" + System.lineSeparator() + explanation;
    }

    /** Plans the graph and opens the splice, or leaves the reason for EXPLAIN why the job runs on stock Flink. */
    private Optional<GraphSplice> splice(ExecNodeGraph graph) {
        explanation = "";
        if (!getTableConfig().get(StreamFusionOptions.ENABLED)) {
            return Optional.empty();
        }
        final Optional<String> unavailable = service.unavailableReason();
        if (unavailable.isPresent()) {
            explanation = "The job runs on stock Flink: " + unavailable.get() + System.lineSeparator();
            return Optional.empty(); // the library has logged it
        }
        try {
            return Optional.of(plan(graph));
        } catch (Exception | LinkageError | StackOverflowError | AssertionError e) {
            explanation = "The job runs on stock Flink: native planning failed with " + e + System.lineSeparator();
            LOG.warn("StreamFusion could not plan the job, which runs on stock Flink", e);
            return Optional.empty();
        }
    }

    private GraphSplice plan(ExecNodeGraph graph) throws Exception {
        final SerdeContext serdeContext = createSerdeContext();
        final TableConfig config = getTableConfig();
        final StreamExecutionEnvironment environment = environment();
        final PlanRequest request =
                PlanRequest.of(
                        graph,
                        CompiledPlanSerdeUtil.createJsonObjectWriter(serdeContext),
                        EnvironmentInformation.getVersion(),
                        config.toMap(),
                        mayBeUnaligned(environment, config));
        final PlanResponse response = PlanResponse.parse(service.plan(request.text()));
        final HostCompiler hosts = new HostCompiler(serdeContext, config, classLoader);
        final StageNodes stageNodes = new StageNodes(request, hosts, this, limits(environment, config), origin);
        final GraphSplice splice = GraphSplice.open(graph, request, response, stageNodes.build(response));
        explanation = response.explanation();
        LOG.info("StreamFusion: {}", response.summary());
        return splice;
    }

    /**
     * Whether checkpoints may store what is on its way, which only periodic ones do that are exactly once. A timeout after which an aligned one becomes unaligned changes nothing: what
     * was sent before must be fit to be stored.
     */
    private static boolean mayBeUnaligned(StreamExecutionEnvironment environment, TableConfig config) {
        final Configuration merged = Configuration.fromMap(environment.getConfiguration().toMap());
        merged.addAll(Configuration.fromMap(config.toMap()));
        return CheckpointingOptions.isUnalignedCheckpointEnabled(merged);
    }

    private static Limits limits(StreamExecutionEnvironment environment, ReadableConfig config) {
        final long latencyMs =
                config.getOptional(StreamFusionOptions.BATCH_LATENCY)
                        .map(Duration::toMillis)
                        .orElseGet(environment::getBufferTimeout);
        final int maxRows = config.get(StreamFusionOptions.BATCH_MAX_ROWS);
        if (maxRows < 1 || maxRows > StageConfig.MAX_BATCH_ROWS) {
            throw new ValidationException(
                    "The option "
                            + StreamFusionOptions.BATCH_MAX_ROWS.key()
                            + " must be from 1 to "
                            + StageConfig.MAX_BATCH_ROWS
                            + ", not "
                            + maxRows);
        }
        final long stateCacheBytes =
                config.getOptional(StreamFusionOptions.STATE_CACHE_MAX_SIZE).map(MemorySize::getBytes).orElse(Long.MAX_VALUE);
        return new Limits(maxRows, latencyMs, stateCacheBytes, config.get(StreamFusionOptions.EXCHANGE_BY_HANDLE));
    }

    /** Deprecated in Flink for new transformations, yet the only way to what a job says outside of its table config. */
    @SuppressWarnings("deprecation")
    private StreamExecutionEnvironment environment() {
        return getExecEnv();
    }
}
