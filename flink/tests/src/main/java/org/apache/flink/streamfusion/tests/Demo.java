package org.apache.flink.streamfusion.tests;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.streamfusion.tests.connector.ParityCollectFactory;
import org.apache.flink.table.api.StatementSet;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.api.internal.TableEnvironmentImpl;
import org.apache.flink.table.operations.Operation;
import org.apache.flink.table.operations.QueryOperation;
import org.apache.flink.table.operations.SinkModifyOperation;

import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * Runs a SQL script on stock Flink and natively, one after the other in this JVM, and compares.
 *
 * <p>Of an INSERT INTO the query behind it is run; the table is not written. The results are compared as whole tables.
 * The times are medians of separate runs that throw the result away, after the compared runs have warmed up the JVM.
 *
 * <p>Arguments: the script, and the directory that stands for <code>${data}</code> in it. Exit code: 0 if the results
 * are equal and something ran natively, 1 if not, 2 for wrong arguments.
 */
public final class Demo {
    private static final int FIRST_ROWS = 10;
    private static final int TIMED_RUNS = 3;
    private static final double NANOS_PER_SECOND = 1e9;

    private final SqlScript script;
    private final PrintStream out;

    private Demo(SqlScript script, PrintStream out) {
        this.script = script;
        this.out = out;
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length < 1 || arguments.length > 2) {
            System.err.println("Usage: Demo SCRIPT [DATA_DIRECTORY]");
            System.exit(2);
        }
        String text = Files.readString(Path.of(arguments[0]));
        if (arguments.length == 2) {
            text = text.replace("${data}", arguments[1]);
        }
        boolean passed = false;
        try {
            passed = new Demo(SqlScript.parse(text), System.out).run();
        } catch (Exception e) {
            e.printStackTrace();
        }
        // The cluster's threads would keep the JVM alive.
        System.exit(passed ? 0 : 1);
    }

    private boolean run() throws Exception {
        PlanReport plan = explain();
        out.println(plan.executionPlan());

        List<String> stock = rows(Engine.STOCK);
        List<String> natively = rows(Engine.NATIVE);
        printFirst(natively);
        boolean identical = stock.equals(natively);
        out.printf("%nrows: %,d%nresults identical: %s%n", natively.size(), identical ? "yes" : "no");
        if (!identical) {
            printDifference(stock, natively);
        }

        double stockSeconds = medianSeconds(Engine.STOCK);
        double nativeSeconds = medianSeconds(Engine.NATIVE);
        out.printf(
                "stock Flink %.2f s, native %.2f s, ratio %.2f (medians of %d runs)%n",
                stockSeconds, nativeSeconds, stockSeconds / nativeSeconds, TIMED_RUNS);

        boolean accelerated = !plan.nativeNodes().isEmpty();
        if (!accelerated) {
            out.println("nothing ran natively");
        }
        return identical && accelerated;
    }

    private PlanReport explain() {
        StreamTableEnvironment environment = environment(Engine.NATIVE);
        return PlanReport.parse(insertInto(environment, blackhole(environment)).explain());
    }

    private List<String> rows(Engine engine) throws Exception {
        StreamTableEnvironment environment = environment(engine);
        MaterializedTable result = MaterializedTable.ofRetractions();
        String sinkId = ParityCollectFactory.register(result::apply);
        try {
            Table query = query(environment);
            environment.executeSql(SelectSink.of(query).createTable(sinkId));
            insertInto(environment, SelectSink.NAME).execute().await();
            return result.rows();
        } finally {
            ParityCollectFactory.unregister(sinkId);
        }
    }

    private double medianSeconds(Engine engine) throws Exception {
        List<Double> seconds = new ArrayList<>();
        for (int i = 0; i < TIMED_RUNS; i++) {
            StreamTableEnvironment environment = environment(engine);
            StatementSet statements = insertInto(environment, blackhole(environment));
            long start = System.nanoTime();
            statements.execute().await();
            seconds.add((System.nanoTime() - start) / NANOS_PER_SECOND);
        }
        Collections.sort(seconds);
        return seconds.get(seconds.size() / 2);
    }

    private StreamTableEnvironment environment(Engine engine) {
        Configuration configuration = new Configuration();
        engine.select(configuration);
        StreamTableEnvironment environment = LocalCluster.tableEnvironment(configuration, 1);
        for (String statement : script.preparation()) {
            SqlScript.Setting setting = SqlScript.setting(statement);
            if (setting == null) {
                environment.executeSql(statement);
            } else {
                environment.getConfig().set(setting.key(), setting.value());
            }
        }
        return environment;
    }

    private StatementSet insertInto(StreamTableEnvironment environment, String sink) {
        return environment.createStatementSet().add(query(environment).insertInto(sink));
    }

    private Table query(StreamTableEnvironment environment) {
        TableEnvironmentImpl internal = (TableEnvironmentImpl) environment;
        Operation operation = internal.getParser().parse(script.query()).get(0);
        if (operation instanceof SinkModifyOperation insert) {
            return internal.createTable(insert.getChild());
        }
        if (operation instanceof QueryOperation query) {
            return internal.createTable(query);
        }
        throw new IllegalArgumentException("The last statement must be a SELECT or an INSERT INTO: " + script.query());
    }

    private String blackhole(StreamTableEnvironment environment) {
        String name = "demo_blackhole";
        environment.executeSql("CREATE TABLE " + name + " (" + SelectSink.of(query(environment)).columns()
                + ") WITH ('connector'='blackhole')");
        return name;
    }

    private void printFirst(List<String> rows) {
        out.println();
        out.println(query(environment(Engine.STOCK)).getResolvedSchema().getColumnNames());
        rows.stream().limit(FIRST_ROWS).forEach(out::println);
        if (rows.size() > FIRST_ROWS) {
            out.println("...");
        }
    }

    private void printDifference(List<String> stock, List<String> natively) {
        try {
            Difference.check("the script", stock, natively);
        } catch (AssertionError difference) {
            out.println(difference.getMessage());
        }
    }
}
