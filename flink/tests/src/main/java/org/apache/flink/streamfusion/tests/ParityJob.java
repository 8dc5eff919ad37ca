package org.apache.flink.streamfusion.tests;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.streamfusion.planner.LastPlan;
import org.apache.flink.streamfusion.tests.connector.Change;
import org.apache.flink.streamfusion.tests.connector.ParityCollectFactory;
import org.apache.flink.streamfusion.tests.connector.ParityValuesFactory;
import org.apache.flink.table.api.StatementSet;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;

/** One execution of a parity test's statements on one engine. */
final class ParityJob implements AutoCloseable {
    private final StreamTableEnvironment environment;
    private final Map<ParitySink, List<Change>> changelogs = new LinkedHashMap<>();
    private final List<String> sinkIds = new ArrayList<>();
    private final List<String> dataIds = new ArrayList<>();
    private final StatementSet statements;

    /**
     * Creates the tables and adds the statements; runs nothing.
     *
     * @param keys columns of the primary key of the table that takes the rows of a SELECT, empty for none
     */
    ParityJob(
            Configuration configuration,
            int parallelism,
            Consumer<StreamTableEnvironment> setUp,
            List<ParityInput> inputs,
            ParityValuesFactory.RowForm form,
            List<ParitySink> sinks,
            Set<String> keys,
            List<String> sql) {
        environment = LocalCluster.tableEnvironment(configuration, parallelism);
        setUp.accept(environment);
        for (ParityInput input : inputs) {
            String dataId = ParityValuesFactory.register(input.rows());
            dataIds.add(dataId);
            environment.executeSql(input.createTable(dataId, form));
        }
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
        statements.execute().await();
        return changelogs;
    }

    @Override
    public void close() {
        dataIds.forEach(ParityValuesFactory::unregister);
        sinkIds.forEach(ParityCollectFactory::unregister);
    }
}
