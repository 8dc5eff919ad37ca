package org.apache.flink.streamfusion.tests;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.table.functions.FunctionContext;
import org.apache.flink.table.functions.ScalarFunction;
import org.apache.flink.types.Row;

import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

import java.util.concurrent.atomic.AtomicInteger;

/** User functions run in the JVM inside the native Calc, as often and for the same rows as on stock Flink. */
@RequiresNative
class UserFunctionParityTest {
    private static final Row[] ROWS = {Row.of(1, "a"), Row.of(2, null), Row.of(null, "c"), Row.of(4, "")};

    @BeforeEach
    void reset() {
        Counting.OPENED.set(0);
        Counting.CLOSED.set(0);
        Counting.CALLED.set(0);
    }

    @Test
    void resultsAreThoseOfFlink() throws Exception {
        functions("SELECT v, counting(v, s), counting(v + 1, s || '!') || '?' FROM t")
                .expectNative("Calc")
                .run();
    }

    @Test
    void openAndCloseRunOncePerTask() throws Exception {
        functions("SELECT counting(v, s) FROM t").batchSizes(1).run();
        // One stock run and one native run.
        assertThat(Counting.OPENED).hasValue(2);
        assertThat(Counting.CLOSED).hasValue(2);
        assertThat(Counting.CALLED).hasValue(2 * ROWS.length);
    }

    @Test
    void rowsThatAGuardExcludesAreNotSeen() throws Exception {
        functions("SELECT CASE WHEN v > 1 THEN counting(v, s) END FROM t WHERE s IS NOT NULL")
                .batchSizes(8192)
                .run();
        // Only (4, '') passes both, once per engine.
        assertThat(Counting.CALLED).hasValue(2);
    }

    @Test
    void exceptionOfTheFunctionPassesThrough() throws Exception {
        functions("SELECT counting(v, s) FROM t WHERE v IS NOT NULL AND counting(v - 1000, s) IS NOT NULL")
                .runFailing();
    }

    @Test
    void functionInFrontOfAnAggregate() throws Exception {
        functions("SELECT counting(v, s), COUNT(*) FROM t GROUP BY counting(v, s)").run();
    }

    private static Parity functions(String query) {
        return Parity.of(query)
                .setUp(environment -> environment.createTemporarySystemFunction("counting", Counting.class))
                .input("t", "v INT, s STRING", ROWS);
    }

    /** Counts what Flink does with it. */
    public static final class Counting extends ScalarFunction {
        private static final long serialVersionUID = 1L;
        private static final AtomicInteger OPENED = new AtomicInteger();
        private static final AtomicInteger CLOSED = new AtomicInteger();
        private static final AtomicInteger CALLED = new AtomicInteger();

        @Override
        public void open(FunctionContext context) {
            OPENED.incrementAndGet();
        }

        @Override
        public void close() {
            CLOSED.incrementAndGet();
        }

        public String eval(Integer number, String text) {
            CALLED.incrementAndGet();
            if (number != null && number < -100) {
                throw new IllegalStateException("counting refuses " + number);
            }
            return text + ":" + number;
        }
    }
}
