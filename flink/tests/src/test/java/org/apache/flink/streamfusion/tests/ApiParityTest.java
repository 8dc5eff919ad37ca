package org.apache.flink.streamfusion.tests;

import static org.apache.flink.table.api.Expressions.$;
import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streamfusion.tests.connector.Change;
import org.apache.flink.streamfusion.tests.connector.ParityCollectFactory;
import org.apache.flink.streamfusion.tests.connector.ParityValuesFactory;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.PlanReference;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.planner.plan.nodes.exec.ExecNodeContext;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

import java.util.ArrayList;
import java.util.List;

/** Whatever way a job is written and started, it is accelerated, or left alone where it must be. */
@RequiresNative
class ApiParityTest {
    private static final Row[] ROWS = {Row.of("a", 1), Row.of("b", 2), Row.of("a", 3), Row.of(null, 4), Row.of("b", null)};
    private static final String DDL = "k STRING, v INT";
    private static final String QUERY = "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t WHERE v > 0 GROUP BY k";

    @AfterEach
    void nothingIsLeftOpen() throws Exception {
        Parity.checkReleased();
    }

    @Test
    void explainShowsNativeNodesAndReasons() {
        PlanReport plan = Parity.of(QUERY).input("t", DDL, ROWS).explain();
        assertThat(plan.nativeNodes()).extracting(PlanReport.Node::kind).containsExactly("Calc", "Exchange", "GroupAggregate");
        assertThat(plan.stockNodes()).extracting(PlanReport.Node::kind).containsExactly("TableSourceScan", "Sink");
        assertThat(plan.stockNodes()).allSatisfy(node -> assertThat(node.reasons()).isNotEmpty());
    }

    @Test
    void sessionCanTurnItOff() {
        PlanReport plan = Parity.of(QUERY).set(Engine.ENABLED, "false").input("t", DDL, ROWS).explain();
        assertThat(plan.nativeNodes()).isEmpty();
    }

    @Test
    void stateStaysOnFlinkUnderABackendThatCannotHostIt() {
        PlanReport plan = Parity.of("SELECT k, COUNT(*), SUM(w) FROM (SELECT UPPER(k) AS k, v * 2 AS w FROM t) GROUP BY k")
                .set("state.changelog.enabled", "true")
                .input("t", DDL, ROWS)
                .explain();
        assertThat(plan.nativeNodes()).extracting(PlanReport.Node::kind).containsExactly("Calc");
        assertThat(plan.stockNodes()).anySatisfy(node -> {
            assertThat(node.kind()).isEqualTo("GroupAggregate");
            assertThat(node.reasons()).contains("the job writes a state changelog, which native state has no part in");
        });
    }

    @Test
    void tableApiJob() throws Exception {
        List<List<String>> results = new ArrayList<>();
        for (Engine engine : Engine.values()) {
            StreamTableEnvironment environment = environment(engine);
            createInput(environment);
            Table table = environment
                    .from("t")
                    .filter($("v").isGreater(0))
                    .groupBy($("k"))
                    .select($("k"), $("v").sum().as("s"), $("v").count().as("n"));
            assertNative(engine, table.explain());
            results.add(collect(table.execute().collect()));
        }
        assertThat(results.get(1)).isEqualTo(results.get(0)).isNotEmpty();
    }

    @Test
    void dataStreamsInAndOut() throws Exception {
        List<List<String>> results = new ArrayList<>();
        for (Engine engine : Engine.values()) {
            StreamExecutionEnvironment streams = streams(engine);
            StreamTableEnvironment tables = LocalCluster.tableEnvironment(streams, configuration(engine));
            DataStream<Row> input = streams.fromData(
                    Types.ROW_NAMED(
                            new String[] {"k", "v"},
                            Types.STRING,
                            Types.INT),
                    ROWS);
            tables.createTemporaryView("t", tables.fromDataStream(input));
            Table table = tables.sqlQuery(QUERY);
            assertNative(engine, table.explain());
            results.add(collect(tables.toChangelogStream(table).executeAndCollect()));
        }
        assertThat(results.get(1)).isEqualTo(results.get(0)).isNotEmpty();
    }

    @Test
    void compiledPlanIsFlinksAndRunsNatively() throws Exception {
        List<String> plans = new ArrayList<>();
        List<List<Change>> results = new ArrayList<>();
        String dataId = ParityValuesFactory.register(List.of(ROWS));
        List<Change> changes = new ArrayList<>();
        String sinkId = ParityCollectFactory.register(changes::add);
        for (Engine engine : Engine.values()) {
            StreamTableEnvironment environment = environment(engine);
            environment.executeSql(new ParityInput("t", DDL, "+I", List.of()).createTable(dataId, ParityValuesFactory.RowForm.MIXED));
            environment.executeSql(new ParitySink("s", "k STRING, n BIGINT, s INT", ParitySink.ALL_KINDS).createTable(sinkId));
            // Ids count on for the life of the JVM.
            ExecNodeContext.resetIdCounter();
            String plan = environment.compilePlanSql("INSERT INTO s " + QUERY).asJsonString();
            plans.add(plan);
            PlanReference reference = PlanReference.fromJsonString(plan);
            assertNative(engine, environment.loadPlan(reference).explain());
            environment.loadPlan(reference).execute().await();
            results.add(List.copyOf(changes));
            changes.clear();
        }
        assertThat(plans.get(1)).isEqualTo(plans.get(0));
        assertThat(results.get(1)).isEqualTo(results.get(0)).isNotEmpty();
    }

    @Test
    void batchJobsAreLeftAlone() throws Exception {
        TableEnvironment environment = TableEnvironment.create(EnvironmentSettings.newInstance()
                .inBatchMode()
                .withConfiguration(configuration(Engine.NATIVE))
                .build());
        createInput(environment);
        assertThat(environment.explainSql(QUERY)).doesNotContain("StreamFusion");
        assertThat(collect(environment.executeSql(QUERY).collect())).containsExactlyInAnyOrder("+I[a, 2, 4]", "+I[b, 1, 2]", "+I[null, 1, 4]");
    }

    @Test
    void executeSqlCollectsRows() throws Exception {
        List<List<String>> results = new ArrayList<>();
        for (Engine engine : Engine.values()) {
            StreamTableEnvironment environment = environment(engine);
            createInput(environment);
            assertNative(engine, environment.explainSql(QUERY));
            results.add(collect(environment.executeSql(QUERY).collect()));
        }
        assertThat(results.get(1)).isEqualTo(results.get(0)).isNotEmpty();
    }

    private static void assertNative(Engine engine, String explanation) {
        List<PlanReport.Node> nodes = PlanReport.parse(explanation).nativeNodes();
        assertThat(nodes.isEmpty()).as(explanation).isEqualTo(engine == Engine.STOCK);
    }

    private static Configuration configuration(Engine engine) {
        Configuration configuration = new Configuration();
        engine.select(configuration);
        return configuration;
    }

    private static StreamExecutionEnvironment streams(Engine engine) {
        return LocalCluster.environment(configuration(engine), 1);
    }

    private static StreamTableEnvironment environment(Engine engine) {
        return LocalCluster.tableEnvironment(configuration(engine), 1);
    }

    private static void createInput(TableEnvironment environment) {
        String dataId = ParityValuesFactory.register(List.of(ROWS));
        environment.executeSql(new ParityInput("t", DDL, "+I", List.of()).createTable(dataId, ParityValuesFactory.RowForm.MIXED));
    }

    private static List<String> collect(CloseableIterator<Row> rows) throws Exception {
        try (rows) {
            List<String> collected = new ArrayList<>();
            rows.forEachRemaining(row -> collected.add(row.toString()));
            return collected;
        }
    }
}
