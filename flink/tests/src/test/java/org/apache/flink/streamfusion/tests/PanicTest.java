package org.apache.flink.streamfusion.tests;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.streamfusion.runtime.NativeException;
import org.apache.flink.streamfusion.runtime.StagePanic;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;

import org.junit.jupiter.api.Test;

import java.time.Duration;

/** A panic in Rust ends the task, not the JVM. */
@RequiresNative
class PanicTest {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    @Test
    void taskFailsWithTheNameOfTheNodeAndTheJvmLivesOn() throws Exception {
        Configuration configuration = new Configuration();
        Engine.NATIVE.select(configuration);
        StreamTableEnvironment environment = LocalCluster.tableEnvironment(configuration, 1);
        // Runs long enough for the panic to come while rows still flow.
        environment.executeSql("CREATE TABLE t (k INT, v BIGINT) WITH ('connector'='datagen', 'rows-per-second'='500', "
                + "'number-of-rows'='30000', 'fields.k.min'='0', 'fields.k.max'='9')");
        environment.executeSql("CREATE TABLE s (k INT, n BIGINT) WITH ('connector'='blackhole')");
        TableResult job = environment.executeSql("INSERT INTO s SELECT k, COUNT(*) FROM t GROUP BY k");

        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (!StagePanic.provoke()) {
            assertThat(System.nanoTime()).as("no stage was opened in time").isLessThan(deadline);
            Thread.sleep(10);
        }
        assertThatThrownBy(job::await).satisfies(thrown -> {
            Failure failure = Failure.of(thrown);
            assertThat(failure.type()).isEqualTo(NativeException.class.getName());
            assertThat(failure.message()).containsAnyOf("Calc(select=[k])", "GroupAggregate(").contains("panicked");
        });
        Parity.checkReleased();

        Parity.of("SELECT v, COUNT(*) FROM u GROUP BY v").input("u", "v INT", Row.of(1), Row.of(1)).run();
    }
}
