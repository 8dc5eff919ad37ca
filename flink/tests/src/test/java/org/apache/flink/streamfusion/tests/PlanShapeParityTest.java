package org.apache.flink.streamfusion.tests;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

import org.junit.jupiter.api.Test;

import java.util.ArrayList;
import java.util.List;

/** Islands of every shape: merged, cut in two by Flink, read twice, written to several sinks. */
@RequiresNative
class PlanShapeParityTest {
    private static final String DDL = "k STRING, v INT";
    private static final String ALL_KINDS = "+I,-U,+U,-D";

    @Test
    void unionOfOneSourceReadTwice() throws Exception {
        Parity.of("SELECT k, SUM(v), COUNT(*) FROM (SELECT k, v FROM t WHERE v > 0 UNION ALL SELECT k, -v FROM t) GROUP BY k")
                .input("t", DDL, rows())
                .finalTable()
                .run();
    }

    @Test
    void unionOfTwoSources() throws Exception {
        Parity.of("SELECT k, SUM(v), COUNT(*) FROM (SELECT * FROM t UNION ALL SELECT * FROM u) GROUP BY k")
                .input("t", DDL, rows())
                .input("u", DDL, rows())
                .finalTable()
                .run();
    }

    @Test
    void unionOfRowsAndBatches() throws Exception {
        Parity.of("SELECT k, SUM(n) FROM (SELECT k, CAST(COUNT(*) AS INT) AS n FROM t GROUP BY k UNION ALL SELECT k, v FROM u) GROUP BY k")
                .input("t", DDL, rows())
                .input("u", DDL, rows())
                .finalTable()
                .run();
    }

    @Test
    void updateBeforeIsDropped() throws Exception {
        Parity.of("SELECT id, v + 1 AS w FROM t")
                .changelog("t", "id INT NOT NULL, v INT, PRIMARY KEY (id) NOT ENFORCED", ALL_KINDS, updates())
                .upsertBy("id")
                .expectNative("DropUpdateBefore", "Calc")
                .run();
    }

    @Test
    void upsertSourceIsNormalizedAndCounted() throws Exception {
        Parity.of("SELECT v, COUNT(*) FROM t GROUP BY v")
                .changelog("t", "id INT NOT NULL, v INT, PRIMARY KEY (id) NOT ENFORCED", "+I,+U,-D", upserts())
                .expectNative("Exchange", "ChangelogNormalize", "Calc", "Exchange", "GroupAggregate")
                .run();
    }

    @Test
    void exchangeInFrontOfAnOperatorOfFlinkStaysOnFlink() throws Exception {
        Parity.of(
                        "SELECT v, COUNT(*) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY CAST(v AS DOUBLE)) AS n"
                                + " FROM t) WHERE n <= 2 GROUP BY v")
                .input("t", DDL, rows())
                .expectStock("Rank", "FLOAT or DOUBLE")
                .expectStock("Exchange", "")
                .expectNative("Calc", "Calc", "Exchange", "GroupAggregate")
                .run();
    }

    @Test
    void singletonGathersEverything() throws Exception {
        Parity.of("SELECT COUNT(*), SUM(v), MIN(k) FROM t")
                .input("t", DDL, rows())
                .expectNative("Exchange", "GroupAggregate")
                .batchSizes(1, 2, 7, 8192)
                .run();
    }

    @Test
    void singletonOfTwoSubtasks() throws Exception {
        Parity.of("SELECT COUNT(*), SUM(v), MIN(k) FROM t")
                .input("t", DDL, rows())
                .parallelism(2)
                .run();
    }

    @Test
    void globalAggregateOfNoRows() throws Exception {
        Parity.of("SELECT COUNT(*), SUM(v) FROM t").input("t", DDL).run();
    }

    @Test
    void nothingPassesTheFilter() throws Exception {
        Parity.of("SELECT k, COUNT(*) FROM t WHERE v > 1000000 GROUP BY k")
                .input("t", DDL, rows())
                .run();
    }

    @Test
    void unsupportedOperatorBetweenTwoIslands() throws Exception {
        Parity.of("SELECT k, MAX(r) FROM (SELECT k, LISTAGG(k) OVER (PARTITION BY k ORDER BY p) AS r FROM "
                        + "(SELECT UPPER(k) AS k, PROCTIME() AS p FROM t WHERE v IS NOT NULL)) GROUP BY k")
                .input("t", DDL, rows())
                .expectStock("OverAggregate", "LISTAGG")
                .expectStock("Exchange", "")
                .finalTable()
                .run();
    }

    @Test
    void joinOfAnAggregateAndAFilter() throws Exception {
        Parity.of("SELECT n, COUNT(*) FROM (SELECT a.k, a.n, b.v FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) a "
                        + "JOIN (SELECT k, v + 1 AS v FROM u WHERE v > 0) b ON a.k = b.k) GROUP BY n")
                .input("t", DDL, rows())
                .input("u", DDL, rows())
                .finalTable()
                .run();
    }

    @Test
    void severalSinksOfOneAggregate() throws Exception {
        Parity.of(
                        "CREATE TEMPORARY VIEW g AS SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k",
                        "INSERT INTO s1 SELECT k, n FROM g",
                        "INSERT INTO s2 SELECT k, s FROM g WHERE s > 0",
                        "INSERT INTO s3 SELECT * FROM g")
                .input("t", DDL, rows())
                .sink("s1", "k STRING, n BIGINT")
                .sink("s2", "k STRING, s INT")
                .sink("s3", "k STRING, n BIGINT, s INT")
                .run();
    }

    @Test
    void nativeAndFlinkReadersOfOneNode() throws Exception {
        Parity.of(
                        "CREATE TEMPORARY VIEW c AS SELECT UPPER(k) || '!' AS k, v * 2 AS v FROM t WHERE v IS NOT NULL",
                        "INSERT INTO s1 SELECT k, v FROM c",
                        "INSERT INTO s2 SELECT k, COUNT(*) FROM c GROUP BY k",
                        "INSERT INTO s3 SELECT v, SUM(v) FROM c GROUP BY v")
                .input("t", DDL, rows())
                .sink("s1", "k STRING, v INT")
                .sink("s2", "k STRING, n BIGINT")
                .sink("s3", "v INT, n BIGINT")
                .run();
    }

    @Test
    void rowsOfOneSourceBecomeBatchesOnceForAllBranches() throws Exception {
        Parity parity = Parity.of(
                        "INSERT INTO s1 SELECT k, v + 1 FROM t",
                        "INSERT INTO s2 SELECT v * 2, COUNT(*) FROM t WHERE k <> 'k1' GROUP BY v * 2")
                .input("t", DDL, rows())
                .sink("s1", "k STRING, w INT")
                .sink("s2", "w INT, n BIGINT")
                .expectNative("Calc", "Calc", "Exchange", "GroupAggregate");
        // the first one only enters, and two read from it
        assertThat(parity.explain().decisions()).contains("in 4 stages");
        parity.run();
    }

    @Test
    void operatorsBehindValuesAreNative() throws Exception {
        Parity.of("SELECT b, SUM(a), MAX(c) FROM (VALUES (1, 'x', DATE '2020-01-02'), (2, 'y', DATE '2000-02-29'), (3, 'x', DATE '1969-12-31')) "
                        + "AS v(a, b, c) GROUP BY b")
                .expectNative("Exchange", "GroupAggregate")
                .run();
    }

    @Test
    void allKindsAndUpsertSinksOfOneAggregate() throws Exception {
        Parity.of("INSERT INTO s1 SELECT k, COUNT(*) FROM t GROUP BY k", "INSERT INTO s2 SELECT k, COUNT(*) FROM t GROUP BY k")
                .input("t", "k STRING NOT NULL, v INT", rows())
                .sink("s1", "k STRING, n BIGINT")
                .upsertSink("s2", "k STRING NOT NULL, n BIGINT, PRIMARY KEY (k) NOT ENFORCED")
                .run();
    }

    @Test
    void guardedDivisionFailsForNoRow() throws Exception {
        Parity.of("SELECT k, CASE WHEN v <> 0 THEN 100 / v ELSE 0 END, IF(v = 0, 0, 100 / v) FROM t WHERE v = 0 OR 100 / v > -1000")
                .input("t", DDL, rows())
                .expectHosted()
                .run();
    }

    @Test
    void smallIslandsStayOnFlink() throws Exception {
        Parity.of("INSERT INTO s1 SELECT k FROM t", "INSERT INTO s2 SELECT k, COUNT(*) FROM t GROUP BY k")
                .set(Engine.ISLANDS_WEIGH, "true")
                .input("t", DDL, rows())
                .sink("s1", "k STRING")
                .sink("s2", "k STRING, n BIGINT")
                .run();
    }

    private static List<Row> rows() {
        List<Row> rows = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            rows.add(Row.of("k" + i % 6, i % 9 == 0 ? null : i * 31 % 17 - 8));
        }
        return rows;
    }

    private static List<Row> updates() {
        List<Row> rows = new ArrayList<>();
        for (int id = 0; id < 20; id++) {
            rows.add(Row.ofKind(RowKind.INSERT, id, id));
            rows.add(Row.ofKind(RowKind.UPDATE_BEFORE, id, id));
            rows.add(Row.ofKind(RowKind.UPDATE_AFTER, id, -id));
            if (id % 3 == 0) {
                rows.add(Row.ofKind(RowKind.DELETE, id, -id));
            }
        }
        return rows;
    }

    private static List<Row> upserts() {
        return updates().stream().filter(row -> row.getKind() != RowKind.UPDATE_BEFORE).toList();
    }
}
