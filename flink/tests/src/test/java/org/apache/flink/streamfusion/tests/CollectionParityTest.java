package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;

import org.junit.jupiter.api.Test;

import java.math.BigDecimal;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** ARRAY, MAP and MULTISET: carried, kept in state, accessed and unnested. */
@RequiresNative
class CollectionParityTest {
    private static final String DDL =
            "id INT, xs ARRAY<INT>, ss ARRAY<STRING>, ts ARRAY<TIMESTAMP(9)>, ds ARRAY<DECIMAL(30, 2)>, "
                    + "rs ARRAY<ROW<a INT, b STRING, c ARRAY<DOUBLE>>>, m MAP<STRING, BIGINT>, "
                    + "n MAP<INT, ROW<x BIGINT, y ARRAY<STRING>>>, ms MULTISET<STRING>, "
                    + "r ROW<ys ARRAY<ARRAY<BOOLEAN>>, z MAP<DATE, DECIMAL(5, 2)>>";

    private static final List<Row> ROWS = List.of(
            Row.of(
                    1,
                    new Integer[] {3, null, Integer.MIN_VALUE},
                    new String[] {"", "seven77", "eight888", "\ud83d\ude00", null},
                    new LocalDateTime[] {
                        LocalDateTime.of(1, 1, 1, 0, 0), null, LocalDateTime.of(9999, 12, 31, 23, 59, 59, 999_999_999)
                    },
                    new BigDecimal[] {new BigDecimal("-0.01"), null, new BigDecimal("9999999999999999999999999999.99")},
                    new Row[] {
                        Row.of(1, "one", new Double[] {Double.NaN, -0.0, null}),
                        Row.of(null, null, null),
                        null,
                        Row.of(2, "a longer text", new Double[0])
                    },
                    map("b", 2L, "a", 1L, "nothing", null),
                    map(7, Row.of(70L, new String[] {"x", null}), -1, null),
                    map("twice", 2, "once", 1, "never", 0),
                    Row.of(
                            new Boolean[][] {{true, null, false}, null, {}},
                            map(LocalDate.of(1969, 12, 31), new BigDecimal("1.25")))),
            Row.of(2, null, null, null, null, null, null, null, null, null),
            Row.of(
                    3,
                    new Integer[0],
                    new String[0],
                    new LocalDateTime[0],
                    new BigDecimal[0],
                    new Row[0],
                    map(),
                    map(),
                    map(),
                    Row.of(null, null)),
            Row.of(
                    4,
                    new Integer[] {4},
                    new String[] {"four"},
                    new LocalDateTime[] {null},
                    new BigDecimal[] {BigDecimal.ONE.setScale(2)},
                    new Row[] {null},
                    map("a", 4L),
                    map(4, Row.of(4L, null)),
                    map("four", 4),
                    Row.of(new Boolean[][] {{}}, map())),
            Row.of(
                    5,
                    range(70),
                    Arrays.stream(range(40)).map(String::valueOf).toArray(String[]::new),
                    new LocalDateTime[] {LocalDateTime.of(1969, 12, 31, 23, 59, 59, 1)},
                    new BigDecimal[] {BigDecimal.TEN.setScale(2), null},
                    Arrays.stream(range(33)).map(i -> Row.of(i, "r" + i, null)).toArray(Row[]::new),
                    map("", 0L, "a", null),
                    map(0, Row.of(null, new String[0])),
                    map("x", 33),
                    null));

    @Test
    void collectionsPassThroughUnchanged() throws Exception {
        Parity.of("SELECT xs, ss, ts, ds, rs, m, n, ms, r, id FROM t WHERE id > 0")
                .input("t", DDL, ROWS)
                .expectNative("Calc")
                .expectHosted()
                .batchSizes(1, 8192)
                .run();
    }

    @Test
    void conditionsChooseAmongCollections() throws Exception {
        Parity.of("SELECT CASE WHEN id > 3 THEN xs ELSE NULL END, xs IS NULL, m IS NOT NULL, t.r.ys FROM t")
                .input("t", DDL, ROWS)
                .expectNative("Calc")
                .expectHosted()
                .batchSizes(8192)
                .run();
    }

    @Test
    void functionsOfCollectionsRunInTheJvm() throws Exception {
        Parity.of("SELECT ARRAY_CONTAINS(xs, 3), MAP_KEYS(m), ARRAY[id, id + 1], MAP['k', id], id + 1 FROM t")
                .input("t", DDL, ROWS)
                .expectNative("Calc")
                .expectHosted("ARRAY_CONTAINS", "MAP_KEYS", "ARRAY", "MAP")
                .batchSizes(8192)
                .run();
    }

    @Test
    void rowsWithCollectionsAreKeptInState() throws Exception {
        Parity.of("SELECT a.id, a.xs, a.rs, b.m, b.ms FROM t a LEFT JOIN u b ON a.id = b.id")
                .input("t", DDL, ROWS)
                .changelog("u", DDL, "+I,-U,+U,-D", Changelogs.retracting(ROWS, 2))
                .finalTable()
                .batchSizes(2)
                .run();
    }

    @Test
    void theLastRowOfAKeyHasItsCollections() throws Exception {
        Parity.of("SELECT id, xs, rs, m FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY p DESC) rn "
                        + "FROM (SELECT *, PROCTIME() AS p FROM t)) WHERE rn = 1")
                .input("t", DDL, Stream.concat(ROWS.stream(), ROWS.stream()).toList())
                .batchSizes(8192)
                .run();
    }

    @Test
    void keysWithCollectionsStayOnFlink() throws Exception {
        Parity.of("SELECT xs, COUNT(*) FROM t WHERE id + 1 > 0 GROUP BY xs")
                .input("t", DDL, ROWS)
                .expectNative("Calc")
                .expectStock("Exchange", "keys of type ARRAY are not supported natively")
                .expectStock("GroupAggregate", "keys of type ARRAY are not supported natively")
                .batchSizes(8192)
                .run();
    }

    @Test
    void elementsAreReadByNumberAndByKey() throws Exception {
        Parity.of("SELECT xs[1], xs[id], ss[2], ts[3], ds[1], rs[1].b, rs[id].c[2], m['a'], m[ss[5]], n[7].y[1], n[id].x, "
                        + "CARDINALITY(xs), CARDINALITY(m), CARDINALITY(t.r.ys), t.r.ys[1][3] FROM t")
                .input("t", DDL, ROWS)
                .expectNative("Calc")
                .expectHosted()
                .run();
    }

    @Test
    void theOnlyElementOfAnArray() throws Exception {
        Parity.of("SELECT ELEMENT(xs), ELEMENT(rs).a FROM t WHERE CARDINALITY(xs) < 2")
                .input("t", DDL, ROWS)
                .expectNative("Calc")
                .expectHosted()
                .batchSizes(8192)
                .run();
    }

    @Test
    void anArrayOfSeveralElementsHasNoOnlyOne() throws Exception {
        Parity.of("SELECT ELEMENT(xs) FROM t").input("t", DDL, ROWS).expectHosted().batchSizes(8192).runFailing();
    }

    @Test
    void everyKindOfCollectionIsUnnested() throws Exception {
        Parity.of(
                        "INSERT INTO s1 SELECT id, e FROM t CROSS JOIN UNNEST(xs) AS u(e)",
                        "INSERT INTO s2 SELECT id, a, b, c[1] FROM t CROSS JOIN UNNEST(rs) AS u(a, b, c)",
                        "INSERT INTO s3 SELECT id, k, v FROM t CROSS JOIN UNNEST(m) AS u(k, v)",
                        "INSERT INTO s4 SELECT id, e FROM t CROSS JOIN UNNEST(ms) AS u(e)",
                        "INSERT INTO s5 SELECT id, e, ds[1] FROM t CROSS JOIN UNNEST(ts) AS u(e) WHERE e IS NOT NULL")
                .input("t", DDL, ROWS)
                .sink("s1", "id INT, e INT")
                .sink("s2", "id INT, a INT, b STRING, c DOUBLE")
                .sink("s3", "id INT, k STRING, v BIGINT")
                .sink("s4", "id INT, e STRING")
                .sink("s5", "id INT, e TIMESTAMP(9), d DECIMAL(30, 2)")
                .expectHosted()
                .batchSizes(2)
                .run();
    }

    @Test
    void elementsAreNumberedAndRowsWithoutAnyStay() throws Exception {
        Parity.of(
                        "INSERT INTO s1 SELECT id, e, o FROM t LEFT JOIN UNNEST(ss) WITH ORDINALITY AS u(e, o) ON TRUE",
                        "INSERT INTO s2 SELECT id, a, b FROM t LEFT JOIN UNNEST(rs) AS u(a, b, c) ON TRUE",
                        "INSERT INTO s3 SELECT id, k, v, o FROM t LEFT JOIN UNNEST(m) WITH ORDINALITY AS u(k, v, o) ON TRUE",
                        "INSERT INTO s4 SELECT id, e, o FROM t CROSS JOIN UNNEST(ms) WITH ORDINALITY AS u(e, o)",
                        "INSERT INTO s5 SELECT id, x, y FROM t CROSS JOIN UNNEST(xs) AS u(x) CROSS JOIN UNNEST(ss) AS w(y)")
                .input("t", DDL, ROWS)
                .sink("s1", "id INT, e STRING, o INT")
                .sink("s2", "id INT, a INT, b STRING")
                .sink("s3", "id INT, k STRING, v BIGINT, o INT")
                .sink("s4", "id INT, e STRING, o INT")
                .sink("s5", "id INT, x INT, y STRING")
                .batchSizes(1, 8192)
                .run();
    }

    @Test
    void aChangelogIsUnnestedChangeByChange() throws Exception {
        Parity.of("SELECT e, COUNT(*) FROM t CROSS JOIN UNNEST(ARRAY[id, id + 1]) AS u(e) GROUP BY e")
                .changelog("t", DDL, "+I,-U,+U,-D", Changelogs.retracting(ROWS, 3))
                .expectNative("Correlate", "Calc", "Exchange", "GroupAggregate")
                .expectHosted("ARRAY")
                .batchSizes(2)
                .run();
    }

    private static Integer[] range(int count) {
        Integer[] values = new Integer[count];
        Arrays.setAll(values, i -> i % 5 == 4 ? null : i);
        return values;
    }

    private static Map<Object, Object> map(Object... entries) {
        Map<Object, Object> map = new LinkedHashMap<>();
        for (int i = 0; i < entries.length; i += 2) {
            map.put(entries[i], entries[i + 1]);
        }
        return map;
    }
}
