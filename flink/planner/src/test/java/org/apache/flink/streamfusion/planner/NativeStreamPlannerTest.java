package org.apache.flink.streamfusion.planner;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.table.api.CompiledPlan;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.planner.delegation.StreamPlanner;
import org.apache.flink.table.planner.plan.nodes.exec.ExecNodeContext;
import org.apache.flink.types.Row;

import org.junit.jupiter.api.Test;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

import static org.assertj.core.api.Assertions.assertThat;

/** What the hook asks, and that it leaves everything else as Flink has it. */
class NativeStreamPlannerTest {

    private static final String AGGREGATE =
            "INSERT INTO totals SELECT auction, SUM(price) FROM bids WHERE price > 10 GROUP BY auction";

    private static final ObjectMapper MAPPER = new ObjectMapper();

    @Test
    void request_has_all_nodes_and_edges_of_an_insert() throws Exception {
        final FixedPlanService service = new FixedPlanService();
        TestSession.with(service).tables().explainSql(AGGREGATE);

        final JsonNode request = MAPPER.readTree(service.requests.get(0));
        final List<String> types = new ArrayList<>();
        request.get("nodes").forEach(node -> types.add(node.get("type").asText()));
        assertThat(types)
                .containsExactly(
                        "stream-exec-table-source-scan_1",
                        "stream-exec-calc_1",
                        "stream-exec-exchange_1",
                        "stream-exec-group-aggregate_1",
                        "stream-exec-sink_1");
        final List<String> edges = new ArrayList<>();
        final int first = request.at("/nodes/0/id").asInt();
        request.get("edges")
                .forEach(e -> edges.add((e.get("source").asInt() - first) + ">" + (e.get("target").asInt() - first)));
        assertThat(edges).containsExactly("0>1", "1>2", "2>3", "3>4");
        assertThat(request.get("flinkVersion").asText()).isEqualTo("2.2.1");
        assertThat(request.at("/nodes/1/condition/internalName").asText()).isEqualTo("$>$1");
    }

    @Test
    void request_says_which_backend_keeps_state_however_that_was_set() throws Exception {
        final FixedPlanService service = new FixedPlanService();
        final TestSession bySet = TestSession.with(service);
        bySet.tables().getConfig().set(StateBackendOptions.STATE_BACKEND, "rocksdb");
        bySet.tables().explainSql(AGGREGATE);
        final Configuration rocksDb = new Configuration();
        rocksDb.set(StateBackendOptions.STATE_BACKEND, "rocksdb");
        final TestSession byEnvironment = TestSession.with(service);
        byEnvironment.environment().configure(rocksDb);
        byEnvironment.tables().explainSql(AGGREGATE);
        TestSession.create(TestSession.factory(service), rocksDb).tables().explainSql(AGGREGATE);

        assertThat(service.requests).hasSize(3);
        for (String request : service.requests) {
            assertThat(MAPPER.readTree(request).at("/config/state.backend.type").asText()).isEqualTo("rocksdb");
        }
    }

    @Test
    void request_has_the_options_of_the_session() throws Exception {
        final FixedPlanService service = new FixedPlanService();
        final TestSession session = TestSession.with(service);
        session.tables().getConfig().set("table.exec.state.ttl", "1 h");
        session.tables().explainSql(AGGREGATE);

        assertThat(MAPPER.readTree(service.requests.get(0)).at("/config/table.exec.state.ttl").asText()).isEqualTo("1 h");
    }

    @Test
    @SuppressWarnings("deprecation") // nothing newer ends in a node that compiled plans do not have
    void node_that_flink_cannot_serialize_keeps_its_place_with_a_reason() throws Exception {
        final FixedPlanService service = new FixedPlanService();
        final TestSession session = TestSession.with(service);
        final StreamTableEnvironment tables = (StreamTableEnvironment) session.tables();
        tables.toAppendStream(tables.sqlQuery("SELECT auction + 1 AS following_one FROM bids"), Row.class);

        final JsonNode request = MAPPER.readTree(service.requests.get(0));
        final JsonNode unserializable =
                request.get("nodes").findParents("reason").stream().findFirst().orElseThrow();
        assertThat(unserializable.get("type").asText()).isEqualTo("unserializable");
        assertThat(unserializable.get("reason").asText()).doesNotEndWith(".").contains("into a compiled plan");
        assertThat(unserializable.has("outputType")).isTrue();
        assertThat(request.get("nodes")).hasSizeGreaterThan(1);
    }

    @Test
    void every_way_to_submit_a_job_is_asked() throws Exception {
        final FixedPlanService service = new FixedPlanService();
        final TestSession session = TestSession.with(service);
        final StreamTableEnvironment tables = (StreamTableEnvironment) session.tables();

        tables.executeSql(AGGREGATE).await();
        assertThat(service.requests).hasSize(1);
        tables.createStatementSet()
                .addInsertSql(AGGREGATE)
                .addInsertSql("INSERT INTO texts SELECT auction, channel FROM bids")
                .execute()
                .await();
        assertThat(service.requests).hasSize(2);
        tables.compilePlanSql(AGGREGATE).execute().await();
        assertThat(service.requests).hasSize(3);
        tables.from("bids").executeInsert("bids_copy").await();
        assertThat(service.requests).hasSize(4);
        tables.toChangelogStream(tables.sqlQuery("SELECT auction FROM bids"));
        assertThat(service.requests).hasSize(5);
        tables.executeSql("SELECT auction FROM bids").await();
        assertThat(service.requests).hasSize(6);
    }

    @Test
    void compiled_plan_is_byte_for_byte_the_stock_one() throws Exception {
        final CompiledPlan stock = compile(TestSession.create(new StockPlannerFactory()), AGGREGATE);
        final FixedPlanService service = new FixedPlanService().answer(NativePlans::aggregateInTwoStages);
        final CompiledPlan accelerated = compile(TestSession.with(service), AGGREGATE);
        final String before = accelerated.asJsonString();
        assertThat(accelerated.explain()).contains("== StreamFusion ==");
        final String after = accelerated.asJsonString();

        assertThat(service.requests).hasSize(1);
        assertThat(before).isEqualTo(stock.asJsonString());
        assertThat(after).isEqualTo(stock.asJsonString());
    }

    @Test
    void explain_shows_the_stock_plan_and_then_the_answer() {
        ExecNodeContext.resetIdCounter();
        final String stock = TestSession.create(new StockPlannerFactory()).tables().explainSql(AGGREGATE);
        ExecNodeContext.resetIdCounter();
        final String explained =
                TestSession.with(new FixedPlanService().answer(NativePlans::aggregateInTwoStages))
                        .tables()
                        .explainSql(AGGREGATE);
        final String section =
                String.format("%n== StreamFusion ==%n") + NativePlans.EXPLANATION;

        assertThat(explained).isEqualTo(stock + section);
    }

    @Test
    void nothing_is_asked_when_switched_off() {
        final FixedPlanService service = new FixedPlanService();
        final TestSession session = TestSession.with(service);
        session.tables().getConfig().set("streamfusion.enabled", "false");

        assertThat(session.tables().explainSql(AGGREGATE)).doesNotContain("StreamFusion");
        assertThat(service.requests).isEmpty();
    }

    @Test
    void missing_library_leaves_the_stock_plan_and_says_why() {
        final FixedPlanService service = new FixedPlanService().unavailable("there is no library");

        assertThat(TestSession.with(service).tables().explainSql(AGGREGATE))
                .contains("The job runs on stock Flink: there is no library");
        assertThat(service.requests).isEmpty();
    }

    @Test
    void nonsense_for_an_answer_leaves_the_stock_plan() {
        final List<String> answers =
                List.of(
                        "no json",
                        "{}",
                        "{\"summary\": \"\", \"stages\": [{\"id\": 0}]}",
                        NativePlans.stage("\"nodes\": [999], \"anchor\": 999, \"inputs\": [{\"node\": 998, \"stage\": null}]"),
                        NativePlans.stage("\"nodes\": [], \"anchor\": 1, \"inputs\": []"));
        for (String answer : answers) {
            final TestSession session = TestSession.with(new FixedPlanService().answer(request -> answer));
            assertThat(session.tables().explainSql(AGGREGATE))
                    .contains("== Optimized Execution Plan ==")
                    .contains("The job runs on stock Flink: native planning failed");
        }
    }

    @Test
    void errors_of_planning_leave_the_stock_plan() {
        for (Error error : List.of(new StackOverflowError("deep"), new AssertionError("wrong"), new LinkageError("gone"))) {
            final FixedPlanService service =
                    new FixedPlanService()
                            .answer(
                                    request -> {
                                        throw error;
                                    });
            assertThat(TestSession.with(service).tables().explainSql(AGGREGATE))
                    .contains("The job runs on stock Flink: native planning failed with " + error);
        }
    }

    @Test
    void batch_size_out_of_range_leaves_the_stock_plan_and_says_why() {
        for (String rows : List.of("0", "1048577")) {
            final TestSession session =
                    TestSession.with(new FixedPlanService().answer(NativePlans::aggregateInTwoStages));
            session.tables().getConfig().set("streamfusion.batch.max-rows", rows);
            assertThat(session.tables().explainSql(AGGREGATE))
                    .contains("streamfusion.batch.max-rows must be from 1 to 1048576, not " + rows);
        }
    }

    @Test
    void other_version_of_flink_gets_the_stock_planner() {
        final StreamFusionPlannerFactory factory = new StreamFusionPlannerFactory("2.3.0", new FixedPlanService());

        assertThat(TestSession.create(factory).planner()).isExactlyInstanceOf(StreamPlanner.class);
        assertThat(TestSession.with(new FixedPlanService()).planner()).isInstanceOf(NativeStreamPlanner.class);
    }

    private static CompiledPlan compile(TestSession session, String sql) throws Exception {
        ExecNodeContext.resetIdCounter();
        return session.tables().compilePlanSql(sql);
    }
}
