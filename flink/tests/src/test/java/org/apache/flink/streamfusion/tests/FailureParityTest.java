package org.apache.flink.streamfusion.tests;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.types.Row;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Where stock Flink fails, the native job fails with the same exception and the same message. */
@RequiresNative
class FailureParityTest {

    @ParameterizedTest
    @ValueSource(
            strings = {
                "SELECT 1 / v FROM t",
                "SELECT MOD(7, v) FROM t",
                "SELECT CAST(1 AS BIGINT) / v FROM t",
                "SELECT 1.0 / CAST(v AS DECIMAL(5, 2)) FROM t",
                "SELECT CAST(s AS INT) FROM t",
                "SELECT CAST(s AS BIGINT) FROM t",
                "SELECT CAST(s AS DOUBLE) FROM t",
                "SELECT CAST(s AS DECIMAL(5, 2)) FROM t",
                "SELECT CAST(s AS BOOLEAN) FROM t",
                "SELECT CAST(s AS DATE) FROM t",
                "SELECT CAST(s AS TIME) FROM t",
                "SELECT CAST(s AS TIMESTAMP(3)) FROM t",
                "SELECT v FROM t WHERE CAST(s AS INT) > 0",
                "SELECT v FROM t WHERE 1 / v > 0",
                "SELECT s, SUM(1 / v) FROM t GROUP BY s",
                "SELECT LOWER(s), 1 / v FROM t"
            })
    void jobFails(String query) throws Exception {
        Parity.of(query)
                .input("t", "v INT, s STRING", Row.of(1, "1"), Row.of(2, "1"), Row.of(0, "not a value"))
                .batchSizes(1, 8192)
                .runFailing();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "SELECT nothing FROM t",
                "SELECT v + s FROM t WHERE",
                "SELECT s - v FROM t",
                "SELECT no_function(v) FROM t",
                "SELECT v FROM nowhere"
            })
    void rejectedSqlGivesFlinksMessage(String query) {
        Failure stock = rejection(query, "false");
        assertThat(rejection(query, "true")).isEqualTo(stock);
    }

    @Test
    void rowsBeforeTheFailingOneAreNotLost() throws Exception {
        // TRY_CAST is the counterpart that does not fail.
        Parity.of("SELECT TRY_CAST(s AS INT), v FROM t")
                .input("t", "v INT, s STRING", Row.of(1, "1"), Row.of(2, "x"), Row.of(3, " 3 "))
                .run();
    }

    private static Failure rejection(String query, String enabled) {
        try {
            Parity.of(query)
                    .set(Engine.ENABLED, enabled)
                    .input("t", "v INT, s STRING")
                    .explain();
            throw new AssertionError("Not rejected: " + query);
        } catch (RuntimeException e) {
            return Failure.of(e);
        }
    }
}
