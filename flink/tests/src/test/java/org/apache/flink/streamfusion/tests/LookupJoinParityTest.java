package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** Lookup joins in whole jobs, row for row: what was found for a row follows what was found for the row before it. */
@RequiresNative
class LookupJoinParityTest {
    private static final String COLUMNS = "k INT, v STRING, name STRING, pt AS PROCTIME()";
    private static final String JOIN = " names FOR SYSTEM_TIME AS OF l.pt AS r ON l.k = r.k";

    private static Parity job(String options, String... statements) {
        return Parity.of(statements)
                .setUp(environment -> environment.executeSql(
                        "CREATE TEMPORARY TABLE names (k INT, name STRING, n INT) WITH ('connector' = 'lookup-names'"
                                + options
                                + ")"))
                .batchSizes(7);
    }

    private static List<Row> rows(int count) {
        Random random = new Random(5);
        List<Row> rows = new ArrayList<>();
        for (int row = 0; row < count; row++) {
            Integer key = random.nextInt(8) == 0 ? null : random.nextInt(20);
            rows.add(Row.of(key, "v" + row, random.nextInt(8) == 0 ? null : "name-" + random.nextInt(9)));
        }
        return rows;
    }

    @ParameterizedTest
    @CsvSource({"JOIN", "LEFT JOIN"})
    void nodes(String type) throws Exception {
        job("", "SELECT l.k, l.v, r.name, r.n FROM l " + type + JOIN)
                .input("l", COLUMNS, rows(300))
                .batchSizes(1, 4096)
                .expectNative("Calc", "LookupJoin", "Calc")
                .expectHosted("lookup of `default_catalog`.`default_database`.`names`")
                .run();
    }

    @Test
    void conditions() throws Exception {
        job("", "SELECT l.v, r.n, r.name FROM l LEFT JOIN" + JOIN + " AND l.v > 'v2' AND r.n > 0 AND CHAR_LENGTH(l.v) > r.n + 1")
                .input("l", COLUMNS, rows(300))
                .run();
        job("", "SELECT l.v, r.n FROM l JOIN" + JOIN + " AND r.n = 1").input("l", COLUMNS, rows(300)).run();
    }

    @Test
    void keysOfTextThatACacheKeeps() throws Exception {
        job(", 'cache' = 'true'",
                        "SELECT l.v, r.k, r.n FROM l JOIN names FOR SYSTEM_TIME AS OF l.pt AS r ON l.name = r.name")
                .input("l", COLUMNS, rows(300))
                .run();
    }

    @Test
    void aKeyWithMoreRowsThanABatch() throws Exception {
        job("", "SELECT l.v, r.n FROM l LEFT JOIN" + JOIN)
                .input("l", COLUMNS, Row.of(1, "a", null), Row.of(99, "b", null), Row.of(4, "c", null), Row.of(3, "d", null))
                .run();
    }

    @Test
    void changes() throws Exception {
        List<Row> changes = List.of(
                Row.ofKind(RowKind.INSERT, 3, "a"),
                Row.ofKind(RowKind.UPDATE_BEFORE, 3, "a"),
                Row.ofKind(RowKind.UPDATE_AFTER, 3, "b"),
                Row.ofKind(RowKind.INSERT, 4, "c"),
                Row.ofKind(RowKind.DELETE, 3, "b"));
        job("", "SELECT l.k, l.v, r.n FROM l LEFT JOIN" + JOIN)
                .changelog("l", "k INT, v STRING, pt AS PROCTIME()", "+I,-U,+U,-D", changes)
                .run();
    }

    /** Behind a stateful operator the lookup is inside of its stage. */
    @Test
    void behindAnAggregate() throws Exception {
        job("", "SELECT l.k, l.c, r.n FROM (SELECT k, COUNT(*) AS c, PROCTIME() AS pt FROM t GROUP BY k) l LEFT JOIN" + JOIN)
                .input("t", COLUMNS, rows(300))
                .run();
    }

    @Test
    void asynchronous() throws Exception {
        job(", 'async' = 'true'", "SELECT l.k, l.v, r.name, r.n FROM l LEFT JOIN" + JOIN + " AND r.n < 2")
                .input("l", COLUMNS, rows(300))
                .expectNative("Calc", "LookupJoin", "Calc")
                .run();
    }

    @Test
    void failures() throws Exception {
        for (String options : new String[] {"", ", 'async' = 'true'"}) {
            job(options, "SELECT l.v, r.n FROM l JOIN" + JOIN)
                    .input("l", COLUMNS, Row.of(1, "a", null), Row.of(66, "b", null))
                    .batchSizes(1, 2)
                    .runFailing();
        }
        job(
                        ", 'async' = 'true'",
                        "SELECT /*+ LOOKUP('table' = 'r', 'async' = 'true', 'timeout' = '40 ms') */ l.v, r.n FROM l JOIN" + JOIN)
                .input("l", COLUMNS, Row.of(1, "a", null), Row.of(-1, "b", null))
                .batchSizes(2)
                .runFailing();
    }
}
