package org.apache.flink.streamfusion.tests;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.streamfusion.tests.connector.ParityValuesFactory.RowForm;
import org.apache.flink.types.Row;

import java.util.List;
import java.util.Set;

/** What a forked JVM runs: explains and runs one small job, and prints both. */
final class ForkedJob {
    private ForkedJob() {}

    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        Engine.NATIVE.select(configuration);
        ParityInput input = new ParityInput(
                "t", "k STRING, v INT", "+I", List.of(Row.of("a", 1), Row.of("b", -1), Row.of("a", 3), Row.of(null, 4)));
        String query = "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t WHERE v > 0 GROUP BY k";
        try (ParityJob job = new ParityJob(
                configuration, 1, ParityJob.SetUp.NONE, List.of(input), RowForm.MIXED, List.of(), Set.of(), List.of(query))) {
            System.out.println(job.explain().decisions());
            System.out.println(job.execute().values());
        }
        System.exit(0);
    }
}
