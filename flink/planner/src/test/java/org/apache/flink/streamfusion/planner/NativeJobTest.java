package org.apache.flink.streamfusion.planner;

import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streamfusion.runtime.Native;
import org.apache.flink.streamfusion.runtime.NativeLibrary;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;

import java.util.ArrayList;
import java.util.List;

import static org.assertj.core.api.Assertions.assertThat;

/** Small jobs from SQL to rows, planned by Rust and run by it. Needs the native library. */
@EnabledIf("libraryIsAvailable")
class NativeJobTest {

    static boolean libraryIsAvailable() {
        return NativeLibrary.isAvailable();
    }

    @AfterEach
    void nothingIsLeftOpen() {
        assertThat(Native.liveHandles()).isZero();
    }

    @Test
    void group_by_with_its_calc_runs_natively() throws Exception {
        final String sql = "SELECT auction, COUNT(*), SUM(price) FROM numbers WHERE price > 2 GROUP BY auction";

        assertNative(sql, "Calc(", "Exchange(", "GroupAggregate(");
        assertThat(run(accelerated(), sql)).isEqualTo(run(stock(), sql)).contains("+U[1, 2, 9]");
    }

    @Test
    void global_aggregate_runs_natively_once() throws Exception {
        final String sql = "SELECT COUNT(*), MAX(price) FROM numbers";

        assertNative(sql, "Exchange(distribution=[single]", "GroupAggregate(");
        assertThat(run(accelerated(), sql)).isEqualTo(run(stock(), sql));
    }

    @Test
    void expression_in_the_jvm_does_not_break_the_island() throws Exception {
        final String sql =
                "SELECT name, COUNT(*) FROM"
                        + " (SELECT REGEXP_REPLACE(channel, '[aeiou]', '_') AS name FROM numbers WHERE price > 1) GROUP BY name";

        assertNative(sql, "Calc(", "Exchange(", "GroupAggregate(");
        assertThat(accelerated().explainSql(sql)).contains("in the JVM: REGEXP_REPLACE");
        assertThat(run(accelerated(), sql)).isEqualTo(run(stock(), sql)).contains("+I[w_b, 1]");
    }

    private static void assertNative(String sql, String... descriptions) {
        final String explained = accelerated().explainSql(sql);
        for (String description : descriptions) {
            assertThat(explained.lines().filter(line -> line.contains("native, stage") && line.contains(description)))
                    .as("%s in%n%s", description, explained)
                    .isNotEmpty();
        }
    }

    private static TableEnvironment accelerated() {
        return tables(TestSession.with(PlanService.nativeLibrary()));
    }

    private static TableEnvironment stock() {
        return tables(TestSession.create(new StockPlannerFactory()));
    }

    private static TableEnvironment tables(TestSession session) {
        session.environment().setParallelism(1);
        // A stream, since Flink would fold the expressions over a constant table.
        final DataStream<Row> numbers =
                session.environment()
                        .fromData(
                                Types.ROW_NAMED(
                                        new String[] {"auction", "price", "channel"}, Types.INT, Types.INT, Types.STRING),
                                Row.of(1, 2, "web"),
                                Row.of(1, 4, "app"),
                                Row.of(2, 3, "web"),
                                Row.of(1, 5, null),
                                Row.of(2, 1, "tv"));
        final StreamTableEnvironment tables = (StreamTableEnvironment) session.tables();
        tables.createTemporaryView("numbers", numbers);
        return tables;
    }

    private static List<String> run(TableEnvironment tables, String sql) throws Exception {
        final List<String> rows = new ArrayList<>();
        try (CloseableIterator<Row> result = tables.executeSql(sql).collect()) {
            result.forEachRemaining(row -> rows.add(row.toString()));
        }
        return rows;
    }
}
