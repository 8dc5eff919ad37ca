package org.apache.flink.streamfusion.tests;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.streamfusion.tests.connector.BidsFactory;
import org.apache.flink.table.api.StatementSet;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * Whole jobs over bids, stock Flink and native in turn in one JVM.
 *
 * <p>Rows lie ready in memory as {@code BinaryRowData}, the sink is a blackhole, there are no checkpoints. The time is that of the job
 * from submission to its end.
 *
 * <p>To look at one job with a profiler: the system property {@code streamfusion.bench.profile} names its letter, and only native
 * runs of it are made. The property {@code streamfusion.bench.jobs}, for example {@code ad}, says which jobs to run.
 */
final class JobBench {
    /** Of each slot. Only native state reserves from it, as much as it uses. */
    private static final MemorySize MANAGED_MEMORY = MemorySize.ofMebiBytes(2048);

    private static final double NANOS_PER_SECOND = 1e9;

    private JobBench() {}

    /**
     * A job.
     *
     * @param title begins with the letter by which it is chosen
     * @param bids the options of the table of bids, but for the number of rows
     * @param columns what stands between the brackets of CREATE TABLE
     */
    record Query(
            String title, int parallelism, Map<String, String> options, Map<String, String> bids, String columns, String select) {

        String letter() {
            return title.substring(0, 1);
        }
    }

    /** To be called first. */
    static void prepare() {
        LocalCluster.useManagedMemory(MANAGED_MEMORY);
        BidsFactory.prepare();
    }

    /** Prints rows per second of both engines and their ratio. Returns whether something ran natively in each job, or ends the process. */
    static boolean compare(List<Query> queries, long rows, int runs) throws Exception {
        String profiled = System.getProperty("streamfusion.bench.profile");
        if (profiled != null) {
            profile(queries, profiled, rows, runs);
            System.exit(0);
        }
        boolean accelerated = true;
        System.out.printf(Locale.ROOT, "%,d rows per run, medians of %d runs%n%n", rows, runs);
        System.out.println("| query | stock rows/s | native rows/s | ratio | native nodes |");
        System.out.println("| --- | ---: | ---: | ---: | --- |");
        String letters = System.getProperty("streamfusion.bench.jobs", "");
        for (Query query : queries) {
            if (!letters.isEmpty() && !letters.contains(query.letter())) {
                continue;
            }
            List<String> nodes = nativeNodes(query);
            accelerated &= !nodes.isEmpty();
            double[] seconds = medians(query, rows, runs);
            System.out.printf(
                    Locale.ROOT,
                    "| %s | %,.0f | %,.0f | %.2f | %s |%n",
                    query.title(), rows / seconds[0], rows / seconds[1], seconds[0] / seconds[1], nodes);
        }
        return accelerated;
    }

    private static void profile(List<Query> queries, String letter, long rows, int runs) throws Exception {
        for (Query query : queries) {
            for (int run = 0; run < runs && query.title().startsWith(letter); run++) {
                System.out.printf(Locale.ROOT, "%s: %,.0f rows/s%n", query.title(), rows / seconds(Engine.NATIVE, query, rows));
            }
        }
    }

    /** Seconds of stock and native runs, taken in turn after one run of each that is not counted. */
    private static double[] medians(Query query, long rows, int runs) throws Exception {
        Engine[] engines = {Engine.STOCK, Engine.NATIVE};
        List<List<Double>> seconds = List.of(new ArrayList<>(), new ArrayList<>());
        for (int run = -1; run < runs; run++) {
            for (int i = 0; i < engines.length; i++) {
                double time = seconds(engines[i], query, rows);
                if (run >= 0) {
                    seconds.get(i).add(time);
                }
            }
        }
        seconds.forEach(Collections::sort);
        return new double[] {seconds.get(0).get(runs / 2), seconds.get(1).get(runs / 2)};
    }

    static double seconds(Engine engine, Query query, long rows) throws Exception {
        StatementSet job = job(engine, query, rows);
        System.gc();
        long start = System.nanoTime();
        job.execute().await();
        return (System.nanoTime() - start) / NANOS_PER_SECOND;
    }

    private static List<String> nativeNodes(Query query) {
        return PlanReport.parse(job(Engine.NATIVE, query, 1).explain()).nativeNodes().stream()
                .map(PlanReport.Node::kind)
                .toList();
    }

    private static StatementSet job(Engine engine, Query query, long rows) {
        Configuration configuration = new Configuration();
        engine.select(configuration);
        query.options().forEach(configuration::setString);
        StreamTableEnvironment environment = LocalCluster.tableEnvironment(configuration, query.parallelism());
        StringBuilder bids = new StringBuilder("'connector'='" + BidsFactory.IDENTIFIER + "', 'rows'='" + rows + "'");
        query.bids().forEach((option, value) -> bids.append(", '").append(option).append("'='").append(value).append("'"));
        environment.executeSql("CREATE TABLE bids (" + query.columns() + ") WITH (" + bids + ")");
        environment.executeSql("CREATE TABLE nowhere ("
                + SelectSink.of(environment.sqlQuery(query.select())).columns() + ") WITH ('connector'='blackhole')");
        return environment.createStatementSet().addInsertSql("INSERT INTO nowhere " + query.select());
    }
}
