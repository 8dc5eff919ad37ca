package org.apache.flink.streamfusion.planner;

import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.TaskInfoImpl;
import org.apache.flink.api.common.functions.DefaultOpenContext;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.functions.util.FunctionUtils;
import org.apache.flink.api.common.functions.util.ListCollector;
import org.apache.flink.api.common.functions.util.RuntimeUDFContext;
import org.apache.flink.api.dag.Transformation;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;
import org.apache.flink.core.memory.ManagedMemoryUseCase;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streamfusion.runtime.HostFunction;
import org.apache.flink.streamfusion.runtime.KeyGroupSelector;
import org.apache.flink.streamfusion.runtime.KeyGroupTypeInfo;
import org.apache.flink.streamfusion.runtime.NativeBatchTypeInfo;
import org.apache.flink.streamfusion.runtime.NativeKeyGroupPartitioner;
import org.apache.flink.streamfusion.runtime.NativeStageOperatorFactory;
import org.apache.flink.streaming.api.transformations.OneInputTransformation;
import org.apache.flink.streaming.api.transformations.PartitionTransformation;
import org.apache.flink.streaming.api.transformations.TwoInputTransformation;
import org.apache.flink.streaming.api.transformations.UnionTransformation;
import org.apache.flink.table.api.PlanReference;
import org.apache.flink.table.api.internal.TableEnvironmentImpl;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.functions.ScalarFunction;
import org.apache.flink.table.operations.ModifyOperation;
import org.apache.flink.table.operations.Operation;
import org.apache.flink.table.planner.delegation.PlannerBase;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.TimestampType;
import org.apache.flink.table.types.logical.VarCharType;
import org.apache.flink.util.InstantiationUtil;

import org.junit.jupiter.api.Test;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

/** What becomes of the answer: transformations in the right shape, and compiled expressions. */
class StageTranslationTest {

    private static final String AGGREGATE =
            "INSERT INTO totals SELECT auction, SUM(price) FROM bids WHERE price > 10 GROUP BY auction";
    private static final String TOTAL =
            "INSERT INTO totals SELECT MAX(auction), SUM(price) FROM bids WHERE price > 10";

    private static final String JOIN =
            "INSERT INTO totals SELECT a.auction, b.price FROM (SELECT auction, price FROM bids WHERE price > 10) a"
                    + " JOIN (SELECT auction, MAX(price) AS price FROM bids GROUP BY auction) b ON a.auction = b.auction";

    private static final RowType BIDS =
            RowType.of(new BigIntType(), new BigIntType(), VarCharType.STRING_TYPE, new TimestampType(3));

    /** Shows that a user function is found again. */
    public static final class Twice extends ScalarFunction {
        private static final long serialVersionUID = 1L;

        public Long eval(Long value) {
            return value == null ? null : 2 * value;
        }
    }

    @Test
    void keyed_aggregate_becomes_two_operators_with_a_keyed_exchange_between() {
        final TestSession session = TestSession.with(new FixedPlanService().answer(NativePlans::aggregateInTwoStages));
        final OneInputTransformation<?, ?> aggregate = nativeOperators(session, AGGREGATE).get(0);
        final PartitionTransformation<?> exchange = (PartitionTransformation<?>) aggregate.getInputs().get(0);
        final OneInputTransformation<?, ?> calc = (OneInputTransformation<?, ?>) exchange.getInputs().get(0);

        assertThat(exchange.getPartitioner()).isInstanceOf(NativeKeyGroupPartitioner.class);
        assertThat(calc.getOutputType()).isEqualTo(NativeBatchTypeInfo.INSTANCE);
        assertThat(calc.getOperatorFactory()).isInstanceOf(NativeStageOperatorFactory.class);
        assertThat(aggregate.getName()).startsWith("GroupAggregate[");
        assertThat(calc.getDescription()).contains("Native(Calc(select=").contains(" -> Exchange(distribution=[hash[");
        assertThat(aggregate.getMaxParallelism()).isEqualTo(-1);
    }

    @Test
    void stateful_stage_alone_has_a_keyed_backend_and_managed_memory() {
        final TestSession session = TestSession.with(new FixedPlanService().answer(NativePlans::aggregateInTwoStages));
        final OneInputTransformation<?, ?> aggregate = nativeOperators(session, AGGREGATE).get(0);
        final OneInputTransformation<?, ?> calc = nativeOperators(session, AGGREGATE).get(1);

        assertThat(aggregate.getStateKeySelector()).isEqualTo(KeyGroupSelector.INSTANCE);
        assertThat(aggregate.getStateKeyType()).isEqualTo(KeyGroupTypeInfo.INSTANCE);
        assertThat(aggregate.getManagedMemoryOperatorScopeUseCaseWeights())
                .isEqualTo(Map.of(ManagedMemoryUseCase.OPERATOR, 4));
        assertThat(calc.getStateKeySelector()).isNull();
        assertThat(calc.getManagedMemoryOperatorScopeUseCaseWeights()).isEmpty();

        session.tables().getConfig().set("state.backend.type", "rocksdb");
        assertThat(nativeOperators(session, AGGREGATE).get(0).getManagedMemoryOperatorScopeUseCaseWeights())
                .isEqualTo(Map.of(ManagedMemoryUseCase.OPERATOR, 1));
    }

    @Test
    void stage_that_collects_rows_has_managed_memory_and_no_keyed_backend() {
        final FixedPlanService service =
                new FixedPlanService()
                        .answer(
                                request -> NativePlans.aggregateInTwoStages(request)
                                        .replace(
                                                "\"stateful\": false, \"collects\": false",
                                                "\"stateful\": false, \"collects\": true"));
        final OneInputTransformation<?, ?> calc = nativeOperators(TestSession.with(service), AGGREGATE).get(1);

        assertThat(calc.getStateKeySelector()).isNull();
        assertThat(calc.getManagedMemoryOperatorScopeUseCaseWeights())
                .isEqualTo(Map.of(ManagedMemoryUseCase.OPERATOR, 4));
    }

    @Test
    void with_unaligned_checkpoints_the_exchange_carries_fragments_to_a_keyed_operator() {
        final List<String> requests = new ArrayList<>();
        final FixedPlanService service =
                new FixedPlanService()
                        .answer(
                                request -> {
                                    requests.add(request);
                                    return NativePlans.aggregateInTwoStages(request)
                                            .replace("[0]}", "[0], \"fragments\": true}")
                                            .replace("\"exchange\": null", "\"exchange\": null, \"fragmentInput\": true");
                                });
        final TestSession session = TestSession.with(service);
        session.environment().enableCheckpointing(1_000);
        session.tables().getConfig().set("execution.checkpointing.unaligned.enabled", "true");
        final OneInputTransformation<?, ?> aggregate = nativeOperators(session, AGGREGATE).get(0);
        final PartitionTransformation<?> exchange = (PartitionTransformation<?>) aggregate.getInputs().get(0);

        assertThat(requests.get(0)).contains("\"unaligned\":true");
        assertThat(exchange.getPartitioner().isSupportsUnalignedCheckpoint()).isTrue();
        assertThat(aggregate.getStateKeySelector()).isNotNull();
    }

    @Test
    void checkpoints_that_are_at_least_once_or_never_taken_are_not_unaligned() {
        for (boolean checkpoints : new boolean[] {true, false}) {
            final List<String> requests = new ArrayList<>();
            final FixedPlanService service =
                    new FixedPlanService()
                            .answer(
                                    request -> {
                                        requests.add(request);
                                        return NativePlans.aggregateInTwoStages(request);
                                    });
            final TestSession session = TestSession.with(service);
            session.tables().getConfig().set("execution.checkpointing.unaligned.enabled", "true");
            if (checkpoints) {
                session.environment().enableCheckpointing(1_000);
                session.tables().getConfig().set("execution.checkpointing.mode", "AT_LEAST_ONCE");
            }
            nativeOperators(session, AGGREGATE);
            assertThat(requests.get(0)).contains("\"unaligned\":false");
        }
    }

    @Test
    void without_unaligned_checkpoints_the_edge_is_aligned() {
        final List<String> requests = new ArrayList<>();
        final FixedPlanService service =
                new FixedPlanService()
                        .answer(
                                request -> {
                                    requests.add(request);
                                    return NativePlans.aggregateInTwoStages(request);
                                });
        final OneInputTransformation<?, ?> aggregate = nativeOperators(TestSession.with(service), AGGREGATE).get(0);
        final PartitionTransformation<?> exchange = (PartitionTransformation<?>) aggregate.getInputs().get(0);

        assertThat(requests.get(0)).contains("\"unaligned\":false");
        assertThat(exchange.getPartitioner().isSupportsUnalignedCheckpoint()).isFalse();
    }

    @Test
    void join_becomes_one_operator_with_two_inputs_and_a_keyed_backend() {
        final TestSession session = TestSession.with(new FixedPlanService().answer(NativePlans::join));
        final TwoInputTransformation<?, ?, ?> join = nativeJoin(session, JOIN);

        assertThat(join.getDescription()).contains("Native(Join(joinType=[InnerJoin]");
        assertThat(join.getStateKeySelector1()).isEqualTo(KeyGroupSelector.INSTANCE);
        assertThat(join.getStateKeySelector2()).isEqualTo(KeyGroupSelector.INSTANCE);
        assertThat(join.getStateKeyType()).isEqualTo(KeyGroupTypeInfo.INSTANCE);
        assertThat(join.getManagedMemoryOperatorScopeUseCaseWeights())
                .isEqualTo(Map.of(ManagedMemoryUseCase.OPERATOR, 4));
        assertThat(join.getMaxParallelism()).isEqualTo(-1);
        assertThat(names(join.getInput1())).anyMatch(name -> name.contains("Calc"));
        assertThat(names(join.getInput2())).anyMatch(name -> name.contains("GroupAggregate"));
    }

    @Test
    void join_without_an_equality_runs_once() {
        final TestSession session = TestSession.with(new FixedPlanService().answer(NativePlans::join));
        session.environment().setParallelism(4);
        final TwoInputTransformation<?, ?, ?> join = nativeJoin(session, JOIN.replace("a.auction = b.auction", "a.price > b.price"));

        assertThat(join.getParallelism()).isEqualTo(1);
        assertThat(join.getMaxParallelism()).isEqualTo(1);
    }

    @Test
    void input_of_a_join_may_be_a_union_or_the_other_one_again() {
        final FixedPlanService service =
                new FixedPlanService()
                        .answer(request -> NativePlans.join(request).replaceFirst("(\\{\"node\": \\d+, \"stage\": null})", "$1, $1"));
        final TwoInputTransformation<?, ?, ?> join = nativeJoin(TestSession.with(service), JOIN);

        assertThat(join.getInput1()).isInstanceOf(UnionTransformation.class);
        assertThat(names(join.getInput2())).anyMatch(name -> name.contains("GroupAggregate"));
    }

    @Test
    void expression_of_a_join_in_the_jvm_leaves_the_job_to_flink() {
        final FixedPlanService service =
                new FixedPlanService()
                        .answer(
                                request -> {
                                    final String plan = NativePlans.join(request);
                                    final String node = plan.replaceFirst("(?s).*\"nodes\": \\[(\\d+)].*", "$1");
                                    return plan.replace(
                                            "\"hosts\": []",
                                            "\"hosts\": [{\"node\": " + node + ", \"pointer\": \"/x\", \"inputs\": []}]");
                                });
        assertThat(TestSession.with(service).tables().explainSql(JOIN))
                .contains("An expression over two inputs cannot run in the JVM");
    }

    private static List<String> names(Transformation<?> transformation) {
        return transformation.getTransitivePredecessors().stream().map(Transformation::getName).toList();
    }

    @Test
    void plan_that_is_translated_again_has_its_own_edges() throws Exception {
        final FixedPlanService service = new FixedPlanService().answer(NativePlans::aggregateInTwoStages);
        final TestSession session = TestSession.with(service);
        final String plan = TestSession.create(new StockPlannerFactory()).tables().compilePlanSql(AGGREGATE).asJsonString();
        final var internal = session.planner().loadPlan(PlanReference.fromJsonString(plan));
        session.planner().translatePlan(internal);
        session.planner().translatePlan(internal);

        assertThat(service.requests).hasSize(2);
        assertThat(nodesOf(service.requests.get(1))).isEqualTo(nodesOf(service.requests.get(0)));
    }

    private static String nodesOf(String request) {
        return request.substring(request.indexOf("\"nodes\":"));
    }

    @Test
    void operator_behind_a_singleton_exchange_runs_once() {
        final FixedPlanService service =
                new FixedPlanService()
                        .answer(request -> NativePlans.aggregateInTwoStages(request).replace("[0]}", "[]}"));
        final TestSession session = TestSession.with(service);
        session.environment().setParallelism(4);
        final OneInputTransformation<?, ?> aggregate = nativeOperators(session, TOTAL).get(0);

        assertThat(aggregate.getParallelism()).isEqualTo(1);
        assertThat(aggregate.getMaxParallelism()).isEqualTo(1);
        assertThat(aggregate.getInputs().get(0).getInputs().get(0).getParallelism()).isEqualTo(4);
    }

    @Test
    void compiled_plan_keeps_the_uid_of_the_anchor() throws Exception {
        final var stock = TestSession.create(new StockPlannerFactory());
        final var accelerated =
                TestSession.with(new FixedPlanService().answer(NativePlans::aggregateInTwoStages));
        final List<String> stockUids = uids(stock, stock.tables().compilePlanSql(AGGREGATE).asJsonString());
        final List<String> uids = uids(accelerated, stock.tables().compilePlanSql(AGGREGATE).asJsonString());

        assertThat(uids).hasSameSizeAs(stockUids).isNotEmpty();
        assertThat(uids.get(0)).matches("\\d+_group-aggregate");
    }

    @Test
    void graph_is_restored_when_flink_fails_to_translate() {
        final FixedPlanService service = new FixedPlanService().answer(NativePlans::aggregateInTwoStages);
        final TestSession session = TestSession.with(service);
        session.tables().getConfig().set("table.exec.sink.keyed-shuffle", "AUTO");
        session.tables().executeSql("CREATE TABLE broken (auction BIGINT, total BIGINT) WITH ('connector' = 'none')");

        assertThatThrownBy(
                        () ->
                                session.tables()
                                        .explainSql("INSERT INTO broken SELECT auction, SUM(price) FROM bids GROUP BY auction"))
                .hasStackTraceContaining("Could not find any factory for identifier 'none'");
    }

    @Test
    void host_expressions_are_compiled_by_flink_and_survive_serialization() throws Exception {
        final List<String> expressions = new ArrayList<>();
        final FixedPlanService service =
                new FixedPlanService()
                        .answer(
                                request -> {
                                    expressions.add(request);
                                    return FixedPlanService.NOTHING_NATIVE;
                                });
        final TestSession session = TestSession.with(service);
        session.tables().createTemporarySystemFunction("twice", Twice.class);
        session.tables()
                .explainSql("INSERT INTO texts SELECT twice(auction), CONCAT(LOWER(channel), CAST(price AS STRING)) FROM bids");

        final JsonNode calc = new ObjectMapper().readTree(expressions.get(0)).at("/nodes/1");
        final PlannerBase planner = (PlannerBase) session.planner();
        final HostCompiler compiler =
                new HostCompiler(
                        planner.createSerdeContext(),
                        session.tables().getConfig(),
                        getClass().getClassLoader());
        final HostFunction twice =
                compiler.compile(new PlanResponse.Host(1, "/projection/0", List.of(0)), calc, bids(calc));
        final HostFunction text =
                compiler.compile(new PlanResponse.Host(1, "/projection/1", List.of(1, 2)), calc, bids(calc));
        final RowData bid = GenericRowData.of(21L, 7L, StringData.fromString("WEB"), null);
        final RowData nulls = GenericRowData.of(null, null, null, null);

        assertThat(call(twice, bid).getLong(0)).isEqualTo(42L);
        assertThat(call(twice, nulls).isNullAt(0)).isTrue();
        assertThat(call(text, bid).getString(0)).hasToString("web7");
        assertThat(text.outputType().asSummaryString()).isEqualTo("STRING");
        assertThat(text.inputs()).containsExactly(1, 2);
        assertThat(text.outputSpec())
                .isEqualTo("{\"input\":\"ROW<`f0` VARCHAR(2147483647)>\",\"reads\":[{}]}");
    }

    @Test
    void host_expressions_become_part_of_the_stage() {
        final String host = "{\"node\": NODE, \"pointer\": \"/projection/1\", \"inputs\": [2]}";
        final FixedPlanService service =
                new FixedPlanService().answer(request -> NativePlans.calcWithHosts(request, host));
        final TestSession session = TestSession.with(service);

        assertThat(nativeOperators(session, "INSERT INTO texts SELECT auction, LOWER(channel) FROM bids")).hasSize(1);
    }

    @Test
    void expression_whose_code_does_not_compile_leaves_the_job_to_flink() {
        final String host = "{\"node\": NODE, \"pointer\": \"/projection/1\", \"inputs\": []}";
        final FixedPlanService service =
                new FixedPlanService().answer(request -> NativePlans.calcWithHosts(request, host));
        final TestSession session = TestSession.with(service);
        // The code asks the context of an operator for the time, and a host has none.
        final String sql = "INSERT INTO texts SELECT auction, CAST(PROCTIME() AS STRING) FROM bids";

        assertThat(nativeOperators(session, sql)).isEmpty();
        assertThat(session.tables().explainSql(sql)).contains("The job runs on stock Flink: native planning failed");
    }

    @Test
    void stage_without_nodes_has_another_uid_than_its_anchor_whatever_the_format() throws Exception {
        final FixedPlanService service = new FixedPlanService().answer(NativePlans::aggregateThenExit);
        final TestSession session = TestSession.with(service);
        session.tables().getConfig().set("table.exec.uid.format", "<id>");
        final List<String> uids = uids(session, session.tables().compilePlanSql(AGGREGATE).asJsonString(), "");

        assertThat(uids).doesNotHaveDuplicates().anyMatch(uid -> uid.matches("\\d+-2"));
    }

    private static RowType bids(JsonNode calc) {
        assertThat(calc.get("type").asText()).isEqualTo("stream-exec-calc_1");
        return BIDS;
    }

    private static RowData call(HostFunction host, RowData row) throws Exception {
        final HostFunction shipped = InstantiationUtil.clone(host);
        final FlatMapFunction<RowData, RowData> function =
                shipped.function().newInstance(StageTranslationTest.class.getClassLoader());
        final List<RowData> out = new ArrayList<>();
        FunctionUtils.setFunctionRuntimeContext(function, runtimeContext());
        FunctionUtils.openFunction(function, DefaultOpenContext.INSTANCE);
        function.flatMap(row, new ListCollector<>(out));
        assertThat(out).hasSize(1);
        return out.get(0);
    }

    private static RuntimeContext runtimeContext() {
        return new RuntimeUDFContext(
                new TaskInfoImpl("test", 1, 0, 1, 0),
                StageTranslationTest.class.getClassLoader(),
                new ExecutionConfig(),
                Map.of(),
                Map.of(),
                UnregisteredMetricsGroup.createOperatorMetricGroup());
    }

    private static List<String> uids(TestSession session, String plan) throws Exception {
        return uids(session, plan, "GroupAggregate");
    }

    private static List<String> uids(TestSession session, String plan, String name) throws Exception {
        final var internal = session.planner().loadPlan(PlanReference.fromJsonString(plan));
        final List<String> uids = new ArrayList<>();
        session.planner()
                .translatePlan(internal)
                .forEach(
                        sink ->
                                sink.getTransitivePredecessors().stream()
                                        .filter(t -> t.getName().contains(name))
                                        .map(Transformation::getUid)
                                        .filter(Objects::nonNull)
                                        .forEach(uids::add));
        return uids;
    }

    /** The operators of native stages with one input, those next to the sink first. */
    private static List<OneInputTransformation<?, ?>> nativeOperators(TestSession session, String sql) {
        final List<OneInputTransformation<?, ?>> found = new ArrayList<>();
        for (Transformation<?> transformation : transformations(session, sql)) {
            if (transformation instanceof OneInputTransformation<?, ?> one
                    && one.getOperatorFactory() instanceof NativeStageOperatorFactory) {
                found.add(one);
            }
        }
        return found;
    }

    private static TwoInputTransformation<?, ?, ?> nativeJoin(TestSession session, String sql) {
        return transformations(session, sql).stream()
                .filter(
                        transformation ->
                                transformation instanceof TwoInputTransformation<?, ?, ?> two
                                        && two.getOperatorFactory() instanceof NativeStageOperatorFactory)
                .map(transformation -> (TwoInputTransformation<?, ?, ?>) transformation)
                .findFirst()
                .orElseThrow();
    }

    /** What a statement becomes, sinks first. */
    private static List<Transformation<?>> transformations(TestSession session, String sql) {
        final List<Operation> operations = ((TableEnvironmentImpl) session.tables()).getParser().parse(sql);
        final List<Transformation<?>> open =
                new ArrayList<>(session.planner().translate(List.of((ModifyOperation) operations.get(0))));
        final List<Transformation<?>> found = new ArrayList<>();
        while (!open.isEmpty()) {
            final Transformation<?> next = open.remove(0);
            found.add(next);
            open.addAll(next.getInputs());
        }
        return found;
    }
}
