package org.apache.flink.streamfusion.planner;

import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streamfusion.runtime.Native;
import org.apache.flink.streamfusion.runtime.NativeLibrary;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.source.legacy.SourceFunction;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;
import org.apache.flink.util.ExceptionUtils;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.api.io.TempDir;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

/** Native state is in no snapshot: nobody may get one that lacks it, and nobody may lose it by asking. */
@EnabledIf("libraryIsAvailable")
class NativeStateTest {

    private static final String GROUP_BY = "SELECT k, COUNT(*) FROM numbers WHERE k < 2 GROUP BY k";

    private static CountDownLatch half;
    private static CountDownLatch asked;

    @TempDir private Path directory;

    static boolean libraryIsAvailable() {
        return NativeLibrary.isAvailable();
    }

    /** Emits a half, waits until the savepoint has been asked for, and emits the other half. */
    @SuppressWarnings("deprecation") // stops when it is cancelled, as sources do for stop with savepoint
    private static final class TwoHalves implements SourceFunction<Row> {
        private static final long serialVersionUID = 1L;

        private volatile boolean running = true;

        @Override
        public void run(SourceContext<Row> context) throws Exception {
            emit(context);
            half.countDown();
            while (running && !asked.await(10, TimeUnit.MILLISECONDS)) {
                // a barrier may pass
            }
            if (running) {
                emit(context);
            }
        }

        private static void emit(SourceContext<Row> context) {
            synchronized (context.getCheckpointLock()) {
                for (int i = 0; i < 6; i++) {
                    context.collect(Row.of(i % 3));
                }
            }
        }

        @Override
        public void cancel() {
            running = false;
        }
    }

    @BeforeEach
    void newLatches() {
        half = new CountDownLatch(1);
        asked = new CountDownLatch(1);
    }

    @AfterEach
    void nothingIsLeftOpen() {
        assertThat(Native.liveHandles()).isZero();
    }

    @Test
    void savepoint_fails_and_the_job_lives_on() throws Exception {
        refusedThenFinished(
                job -> job.triggerSavepoint(directory.toString(), SavepointFormatType.CANONICAL));
    }

    @Test
    void stop_with_savepoint_fails_and_the_job_lives_on() throws Exception {
        refusedThenFinished(
                job -> job.stopWithSavepoint(false, directory.toString(), SavepointFormatType.CANONICAL));
    }

    private interface Request {
        CompletableFuture<String> to(JobClient job);
    }

    /** Asks until every task runs, which a source that has begun to emit does not mean. */
    private static String answer(Request request, JobClient job) throws Exception {
        while (true) {
            try {
                return request.to(job).get();
            } catch (ExecutionException e) {
                if (!ExceptionUtils.stringifyException(e).contains("Not all required tasks")) {
                    throw e;
                }
                Thread.sleep(10);
            }
        }
    }

    private void refusedThenFinished(Request request) throws Exception {
        final TestSession session = session(new Configuration());
        final var result = session.tables().executeSql(GROUP_BY);
        final JobClient job = result.getJobClient().orElseThrow();
        half.await();
        assertThatThrownBy(() -> answer(request, job))
                .hasStackTraceContaining("has native state and takes part in no snapshot")
                .hasStackTraceContaining("'streamfusion.enabled' = 'false'");
        assertThat(job.getJobStatus().get()).isEqualTo(JobStatus.RUNNING);
        asked.countDown();
        assertThat(rows(result.collect()))
                .containsExactlyInAnyOrder(
                        "+I[0, 1]", "-U[0, 1]", "+U[0, 2]", "-U[0, 2]", "+U[0, 3]", "-U[0, 3]", "+U[0, 4]",
                        "+I[1, 1]", "-U[1, 1]", "+U[1, 2]", "-U[1, 2]", "+U[1, 3]", "-U[1, 3]", "+U[1, 4]");
    }

    @Test
    void job_whose_checkpoints_were_enabled_after_planning_fails_at_once() {
        asked.countDown();
        final TestSession session = session(new Configuration());
        final StreamTableEnvironment tables = (StreamTableEnvironment) session.tables();
        tables.toChangelogStream(tables.sqlQuery(GROUP_BY)).print();
        session.environment().enableCheckpointing(1000);

        assertThatThrownBy(() -> session.environment().execute())
                .hasStackTraceContaining("has native state and cannot run in a job that takes checkpoints")
                .hasStackTraceContaining("Enable checkpointing before the job is planned");
    }

    @Test
    void savepoint_of_a_stock_job_restores_no_native_state() throws Exception {
        final String savepoint = stockSavepoint();
        asked.countDown();
        final TestSession session = session(new Configuration());
        final StreamTableEnvironment tables = (StreamTableEnvironment) session.tables();
        tables.toChangelogStream(tables.sqlQuery(GROUP_BY)).print();
        final Configuration restore = new Configuration();
        restore.set(StateRecoveryOptions.SAVEPOINT_PATH, savepoint);
        restore.set(StateRecoveryOptions.SAVEPOINT_IGNORE_UNCLAIMED_STATE, true);
        session.environment().configure(restore); // when the job has been planned already

        assertThatThrownBy(() -> session.environment().execute())
                .hasStackTraceContaining("has native state and cannot be restored");
    }

    @Test
    void job_that_is_planned_to_be_restored_keeps_its_state_on_flink() {
        final Configuration configuration = new Configuration();
        configuration.set(StateRecoveryOptions.SAVEPOINT_PATH, directory.toString());

        assertThat(session(new Configuration()).tables().explainSql(GROUP_BY)).contains("native, stage 1");
        assertThat(session(configuration).tables().explainSql(GROUP_BY)).doesNotContain("native, stage 1");
    }

    private String stockSavepoint() throws Exception {
        final Configuration configuration = new Configuration();
        configuration.set(CheckpointingOptions.SAVEPOINT_DIRECTORY, directory.toUri().toString());
        final TestSession session = session(configuration);
        session.tables().getConfig().set("streamfusion.enabled", "false");
        final JobClient job = session.tables().executeSql(GROUP_BY).getJobClient().orElseThrow();
        half.await();
        final String savepoint =
                answer(j -> j.triggerSavepoint(directory.toString(), SavepointFormatType.CANONICAL), job);
        job.cancel().get();
        job.getJobExecutionResult().handle((result, failure) -> null).get();
        return savepoint;
    }

    @SuppressWarnings("deprecation") // see the source
    private static TestSession session(Configuration configuration) {
        final TestSession session = TestSession.create(TestSession.factory(PlanService.nativeLibrary()), configuration);
        session.environment().setParallelism(1);
        final TypeInformation<Row> type = Types.ROW_NAMED(new String[] {"k"}, Types.INT);
        final DataStream<Row> numbers = session.environment().addSource(new TwoHalves(), type);
        ((StreamTableEnvironment) session.tables()).createTemporaryView("numbers", numbers);
        return session;
    }

    private static List<String> rows(CloseableIterator<Row> result) throws Exception {
        final List<String> rows = new ArrayList<>();
        try (result) {
            result.forEachRemaining(row -> rows.add(row.toString()));
        }
        return rows;
    }
}
