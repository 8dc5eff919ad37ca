package org.apache.flink.streamfusion.tests;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.streamfusion.planner.LastPlan;
import org.apache.flink.streamfusion.tests.connector.Change;
import org.apache.flink.streamfusion.tests.connector.ParityCollectFactory;
import org.apache.flink.streamfusion.tests.connector.ParityValuesFactory;
import org.apache.flink.table.api.StatementSet;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** One execution of a parity test's statements on one engine. */
final class ParityJob implements AutoCloseable {
    /** How long a job may take for the rows that others wait for. */
    private static final int WAIT_SECONDS = 60;

    private final StreamTableEnvironment environment;
    private final Map<ParitySink, List<Change>> changelogs = new LinkedHashMap<>();
    private final List<String> sinkIds = new ArrayList<>();
    private final List<String> dataIds = new ArrayList<>();
    private final Map<String, String> idsByName = new HashMap<>();
    /** Ids of rows that wait, and of those that they wait for. */
    private final Map<String, String> waiting = new LinkedHashMap<>();
    private final StatementSet statements;

    /** What is done to the environment of a job before its tables are created, and when its inputs are there. */
    record SetUp(Consumer<StreamTableEnvironment> before, Consumer<StreamTableEnvironment> withInputs) {
        static final SetUp NONE = new SetUp(environment -> {}, environment -> {});
    }

    /**
     * Creates the tables and adds the statements; runs nothing.
     *
     * @param keys columns of the primary key of the table that takes the rows of a SELECT, empty for none
     */
    ParityJob(
            Configuration configuration,
            int parallelism,
            SetUp setUp,
            List<ParityInput> inputs,
            ParityValuesFactory.RowForm form,
            List<ParitySink> sinks,
            Set<String> keys,
            List<String> sql) {
        environment = LocalCluster.tableEnvironment(configuration, parallelism);
        setUp.before().accept(environment);
        for (ParityInput input : inputs) {
            String dataId = ParityValuesFactory.register(input.rows());
            dataIds.add(dataId);
            idsByName.put(input.name(), dataId);
            environment.executeSql(input.createTable(dataId, form));
            if (input.behind() != null) {
                waiting.put(dataId, idsByName.get(input.behind()));
            }
        }
        setUp.withInputs().accept(environment);
        sinks.forEach(this::createSink);
        statements = environment.createStatementSet();
        for (String statement : sql) {
            String head = statement.stripLeading().toUpperCase();
            if (head.startsWith("INSERT")) {
                statements.addInsertSql(statement);
            } else if (head.startsWith("SELECT") || head.startsWith("WITH") || head.startsWith("(")) {
                createSink(SelectSink.of(environment.sqlQuery(statement), keys));
                statements.addInsertSql("INSERT INTO " + SelectSink.NAME + " " + statement);
            } else {
                environment.executeSql(statement);
            }
        }
    }

    private void createSink(ParitySink sink) {
        List<Change> changes = new ArrayList<>();
        String id = ParityCollectFactory.register(changes::add);
        changelogs.put(sink, changes);
        sinkIds.add(id);
        environment.executeSql(sink.createTable(id));
    }

    PlanReport explain() {
        return PlanReport.parse(statements.explain());
    }

    /** What EXPLAIN would say of the native nodes of the job that {@link #execute} has started. */
    PlanReport executed() {
        return PlanReport.parse(LastPlan.explanation(environment));
    }

    /** Runs the job to its end; the changelog of each sink. */
    Map<ParitySink, List<Change>> execute() throws Exception {
        JobCounters.reset();
        TableResult result = statements.execute();
        for (Map.Entry<String, String> wait : waiting.entrySet()) {
            ParityValuesFactory.ended(wait.getValue()).get(WAIT_SECONDS, TimeUnit.SECONDS);
            // when its barrier has got through, the rows in front of it are worked off
            LocalCluster.takeCheckpoint(result.getJobClient().orElseThrow().getJobID());
            ParityValuesFactory.release(wait.getKey());
        }
        result.await();
        return changelogs;
    }

    @Override
    public void close() {
        dataIds.forEach(ParityValuesFactory::unregister);
        sinkIds.forEach(ParityCollectFactory::unregister);
    }
}
