package org.apache.flink.streamfusion.tests;

import static org.apache.flink.table.api.Expressions.$;

import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/**
 * Joins with versions of a table in whole jobs; late rows are compared in the tests of the stage. In processing time the versions come before
 * all other rows, for a row finds what has come until then.
 */
@RequiresNative
class TemporalJoinParityTest {
    private static final int ROWS = 400;
    private static final LocalDateTime START = LocalDateTime.of(2024, 3, 10, 1, 0);
    private static final String ORDERS =
            "k INT, u INT NOT NULL, v STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '20' SECOND";
    private static final String RATES =
            "k INT NOT NULL, rate INT, ts TIMESTAMP(3), PRIMARY KEY (k) NOT ENFORCED, WATERMARK FOR ts AS ts - INTERVAL '20' SECOND";
    private static final String JOINED = " rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k";

    private static Parity join(String select) {
        return Parity.of(select)
                .input("orders", ORDERS, orders())
                .changelog("rates", RATES, "+I,+U,-D", rates())
                .batchSizes(1, 2, 7, 4096)
                .finalTable();
    }

    private static List<Row> orders() {
        Random random = new Random(1);
        List<Row> rows = new ArrayList<>();
        for (int row = 0; row < ROWS; row++) {
            Integer key = random.nextInt(12) == 0 ? null : random.nextInt(8);
            String text = random.nextInt(8) == 0 ? null : "v" + row;
            rows.add(Row.of(key, random.nextInt(50), text, START.plusSeconds(2L * row - random.nextInt(20))));
        }
        return rows;
    }

    /** Versions of rates: some are deleted, and some of those are inserted again. */
    private static List<Row> rates() {
        Random random = new Random(2);
        List<Row> rows = new ArrayList<>();
        Integer[] rates = new Integer[6];
        for (int row = 0; row < ROWS / 2; row++) {
            int key = random.nextInt(rates.length);
            LocalDateTime time = START.plusSeconds(4L * row - 10);
            RowKind kind;
            if (rates[key] == null) {
                kind = RowKind.INSERT;
                rates[key] = row;
            } else if (random.nextInt(5) == 0) {
                kind = RowKind.DELETE;
            } else {
                kind = RowKind.UPDATE_AFTER;
                rates[key] = row;
            }
            rows.add(Row.ofKind(kind, key, rates[key], time));
            if (kind == RowKind.DELETE) {
                rates[key] = null;
            }
        }
        return rows;
    }

    @ParameterizedTest
    @CsvSource({"JOIN", "LEFT JOIN"})
    void types(String type) throws Exception {
        join("SELECT o.k, o.u, o.v, r.rate FROM orders AS o " + type + JOINED).run();
        join("SELECT o.k, o.u, o.v, r.rate FROM orders AS o " + type + JOINED + " AND o.u < r.rate").run();
    }

    /** With the last rate of each key, and with none of a key whose last rate was taken back. */
    @ParameterizedTest
    @ValueSource(strings = {"", " AND o.u < r.rate"})
    void latestVersionsByATableFunction(String condition) throws Exception {
        Parity.of("SELECT o.k, o.u, o.v, r.rate FROM orders AS o, LATERAL TABLE(rates_at(o.pt)) AS r WHERE o.k = r.k" + condition)
                .changelog("rates", "k INT, rate INT, ts TIMESTAMP(3), pt AS PROCTIME()", "+I,-U,+U,-D", rates())
                .inputBehind("rates", "orders", ORDERS + ", pt AS PROCTIME()", orders())
                .withInputs(environment -> environment.createTemporarySystemFunction(
                        "rates_at", environment.from("rates").createTemporalTableFunction($("pt"), $("k"))))
                .batchSizes(1, 2, 7, 4096)
                .expectNative(
                        "Calc", "WatermarkAssigner", "Calc", "Exchange", "DropUpdateBefore", "Calc", "Exchange", "TemporalJoin", "Calc")
                .run();
    }

    @Test
    void idleState() throws Exception {
        join("SELECT o.k, o.u, o.v, r.rate FROM orders AS o LEFT JOIN" + JOINED)
                .set("table.exec.state.ttl", "1 h")
                .states(7, KeptState.HEAP, KeptState.ROCKSDB_WITHOUT_CACHE)
                .run();
    }

    @Test
    void nodes() throws Exception {
        join("SELECT o.u, r.rate FROM orders AS o LEFT JOIN" + JOINED)
                .expectNative("WatermarkAssigner", "Calc", "Exchange", "WatermarkAssigner", "Exchange", "TemporalJoin", "Calc")
                .run();
    }

    @Test
    void inParallel() throws Exception {
        join("SELECT o.k, o.u, o.v, r.rate FROM orders AS o LEFT JOIN" + JOINED).parallelism(2).run();
    }
}
