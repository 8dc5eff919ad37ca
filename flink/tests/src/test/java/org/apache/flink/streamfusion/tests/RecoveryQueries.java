package org.apache.flink.streamfusion.tests;

import org.apache.flink.streamfusion.tests.connector.Trial;
import org.apache.flink.streamfusion.tests.connector.TrialIdsFactory;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.LongSummaryStatistics;
import java.util.Map;
import java.util.function.LongUnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.LongStream;

/** Statements over the ids of a {@link Trial}, one for each kind of state, and what they result in however often they were interrupted. */
final class RecoveryQueries {
    static final long IDS = 24_000;
    static final long GROUPS = 97;

    /** A statement that reads {@code ids} and writes {@code counts}, and what is in that table in the end. */
    record Query(String insert, String columns, String expected, String operator, Map<String, String> options) {
        Query(String insert, String columns, String expected, String operator) {
            this(insert, columns, expected, operator, Map.of());
        }

        Query(String insert, String columns, String expected) {
            this(insert, columns, expected, "GroupAggregate");
        }

        /** The same where another node keeps the state. */
        Query keptBy(String otherOperator) {
            return new Query(insert, columns, expected, otherOperator, options);
        }

        /** The same with options of the job. */
        Query with(Map<String, String> otherOptions) {
            return new Query(insert, columns, expected, operator, otherOptions);
        }

        @Override
        public String toString() {
            return operator + ": " + insert;
        }
    }

    private RecoveryQueries() {}

    static final Query COUNTS = new Query(
            "INSERT INTO counts SELECT k, COUNT(*), SUM(id), COUNT(DISTINCT id), MIN(id), MAX(id) FROM "
                    + "(SELECT id, CONCAT('key ', CAST(MOD(id, " + GROUPS + ") AS STRING)) AS k FROM ids) GROUP BY k",
            "k STRING, n BIGINT, s BIGINT, d BIGINT, lo BIGINT, hi BIGINT, PRIMARY KEY (k) NOT ENFORCED",
            expectedCounts());

    /** How many keys have how many ids: a stage with state behind another, whose input retracts. */
    static final Query COUNTS_OF_COUNTS = new Query(
            "INSERT INTO counts SELECT n, COUNT(*) FROM (SELECT MOD(id, " + GROUPS + ") AS k, COUNT(*) AS n FROM ids "
                    + "GROUP BY MOD(id, " + GROUPS + ")) GROUP BY n",
            "n BIGINT, m BIGINT, PRIMARY KEY (n) NOT ENFORCED",
            "(%d, %d)\n(%d, %d)".formatted(IDS / GROUPS, GROUPS - IDS % GROUPS, IDS / GROUPS + 1, IDS % GROUPS));

    /** Every third id finds itself: a stage with two inputs, both with state, whose output retracts. */
    static final Query JOINED = new Query(
            matches("ids"),
            "k BIGINT, n BIGINT, m BIGINT, s BIGINT, PRIMARY KEY (k) NOT ENFORCED",
            expectedMatches(),
            "Join");

    /** The same where both inputs have a unique key, by which they are joined: such joins have bundles. */
    static final Query JOINED_BY_UNIQUE_KEYS = new Query(matches("unique_ids"), JOINED.columns(), JOINED.expected(), "Join");

    /** The highest ids of each group: of rows that are only inserted the first ones are kept. */
    static final Query HIGHEST = new Query(
            ("INSERT INTO counts SELECT k, n, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY id DESC) AS n "
                            + "FROM (SELECT MOD(id, %d) AS k, id FROM ids)) WHERE n <= 3")
                    .formatted(GROUPS),
            "k BIGINT, n BIGINT, id BIGINT, PRIMARY KEY (k, n) NOT ENFORCED",
            expectedHighest(),
            "Rank");

    /** The groups that were behind in the end, of sums that grow: all rows are kept. */
    static final Query BEHIND = new Query(
            ("INSERT INTO counts SELECT g, n, k, s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY s, k) AS n FROM "
                            + "(SELECT MOD(k, 3) AS g, k, s FROM (SELECT MOD(id, %d) AS k, SUM(MOD(id, 5)) AS s FROM ids "
                            + "GROUP BY MOD(id, %d)))) WHERE n <= 4")
                    .formatted(GROUPS, GROUPS),
            "g BIGINT, n BIGINT, k BIGINT, s BIGINT, PRIMARY KEY (g, n) NOT ENFORCED",
            expectedBehind(),
            "Rank");

    /** Counts per window, of which the first ones have gone out when the job fails. */
    static final Query WINDOWS = new Query(
            "INSERT INTO counts SELECT MIN(id) / 1000, k, COUNT(*), SUM(id) FROM TABLE(TUMBLE("
                    + "TABLE timed, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY k, window_start, window_end",
            "w BIGINT, k BIGINT, n BIGINT, s BIGINT, PRIMARY KEY (w, k) NOT ENFORCED",
            expectedWindows(1000, 1000),
            "GlobalWindowAggregate");

    /** Counts per burst of ids, behind which nothing comes for a while; some are open when the job stops. */
    static final Query SESSIONS = new Query(
            "INSERT INTO counts SELECT MIN(id) / 4000, k, COUNT(*), SUM(id) FROM TABLE(SESSION("
                    + "TABLE bursts PARTITION BY k, DESCRIPTOR(ts), INTERVAL '0.5' SECOND)) GROUP BY k, window_start, window_end",
            "w BIGINT, k BIGINT, n BIGINT, s BIGINT, PRIMARY KEY (w, k) NOT ENFORCED",
            expectedWindows(4000, 3000),
            "WindowAggregate");

    /** Sums over three rows of a key. */
    static final Query RUNNING = new Query(
            "INSERT INTO counts SELECT MOD(k, 7), COUNT(*), SUM(s) FROM (SELECT k, SUM(id) OVER (PARTITION BY k ORDER BY ts "
                    + "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM timed) GROUP BY MOD(k, 7)",
            "k BIGINT, n BIGINT, s BIGINT, PRIMARY KEY (k) NOT ENFORCED",
            expectedSums(id -> id + Math.max(0, id - GROUPS) + Math.max(0, id - 2 * GROUPS)),
            "OverAggregate");

    /** Each id finds itself and the next one of its key. */
    static final Query NEIGHBOURS = new Query(
            "INSERT INTO counts SELECT MOD(a.k, 7), COUNT(DISTINCT a.id), SUM(b.id) FROM timed AS a JOIN timed AS b ON a.k = b.k "
                    + "AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '0.100' SECOND GROUP BY MOD(a.k, 7)",
            "k BIGINT, n BIGINT, s BIGINT, PRIMARY KEY (k) NOT ENFORCED",
            expectedSums(id -> id + (id + GROUPS < IDS ? id + GROUPS : 0)),
            "IntervalJoin");

    /** Each id with the version that its remainder had at its time, which is the id of that remainder before. */
    static final Query VERSIONS = new Query(
            ("INSERT INTO counts SELECT MOD(a.k, 7), COUNT(*), SUM(b.id) FROM (SELECT k, ts, MOD(id, %d) AS p FROM timed) AS a "
                            + "LEFT JOIN versions FOR SYSTEM_TIME AS OF a.ts AS b ON a.p = b.p GROUP BY MOD(a.k, 7)")
                    .formatted(TrialIdsFactory.PARTITIONS),
            "k BIGINT, n BIGINT, s BIGINT, PRIMARY KEY (k) NOT ENFORCED",
            expectedSums(id -> Math.max(0, id - TrialIdsFactory.PARTITIONS)),
            "TemporalJoin");

    /** All ids in the order of their times. */
    static final Query SORTED = new Query(
            "INSERT INTO counts SELECT id, k FROM timed ORDER BY ts",
            "id BIGINT, k BIGINT, PRIMARY KEY (id) NOT ENFORCED",
            LongStream.range(0, IDS).mapToObj(id -> "(%d, %d)".formatted(id, id % GROUPS)).sorted().collect(Collectors.joining("\n")),
            "TemporalSort");

    /** Each id with those of its key in its window. */
    static final Query IN_ONE_WINDOW = new Query(
            "INSERT INTO counts SELECT MOD(a.k, 7), COUNT(*), SUM(b.id) FROM (" + inWindows("*") + ") AS a JOIN (" + inWindows("*")
                    + ") AS b ON a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end GROUP BY MOD(a.k, 7)",
            "k BIGINT, n BIGINT, s BIGINT, PRIMARY KEY (k) NOT ENFORCED",
            expectedPairs(),
            "WindowJoin");

    /** The highest ids of each key in each window. */
    static final Query HIGHEST_IN_WINDOWS = new Query(
            "INSERT INTO counts SELECT id / 1000, k, n, id FROM (" + inWindows("*, " + numbered("id DESC")) + ") WHERE n <= 2",
            "w BIGINT, k BIGINT, n BIGINT, id BIGINT, PRIMARY KEY (w, k, n) NOT ENFORCED",
            expectedHighestInWindows(2, "%d, %d, %d, %d"),
            "WindowRank");

    /** The last id of each key in each window. */
    static final Query LAST_IN_WINDOWS = new Query(
            "INSERT INTO counts SELECT id / 1000, k, id FROM (" + inWindows("*, " + numbered("ts DESC")) + ") WHERE n = 1",
            "w BIGINT, k BIGINT, id BIGINT, PRIMARY KEY (w, k) NOT ENFORCED",
            expectedHighestInWindows(1, "%1$d, %2$d, %4$d"),
            "WindowDeduplicate");

    /** As {@link #WINDOWS}, in the older syntax. */
    static final Query GROUP_WINDOWS = new Query(
            "INSERT INTO counts SELECT MIN(id) / 1000, k, COUNT(*), SUM(id) FROM timed GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND)",
            WINDOWS.columns(),
            WINDOWS.expected(),
            "GroupWindowAggregate");

    /** How many whole seconds the sessions of ids take, without an aggregate in them. */
    static final Query SESSIONS_OF_ROWS = new Query(
            "INSERT INTO counts SELECT MOD(k, 7), COUNT(*), SUM(TIMESTAMPDIFF(SECOND, window_start, window_end)) FROM TABLE(SESSION("
                    + "TABLE bursts PARTITION BY k, DESCRIPTOR(ts), INTERVAL '0.5' SECOND)) GROUP BY MOD(k, 7)",
            "k BIGINT, n BIGINT, s BIGINT, PRIMARY KEY (k) NOT ENFORCED",
            expectedSeconds(),
            "WindowTableFunction");

    /** The first id of each 500, which waits until its time has come. */
    static final Query FIRST_BY_TIME = new Query(
            "INSERT INTO counts SELECT k, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n "
                    + "FROM (SELECT id / 500 AS k, id, ts FROM timed)) WHERE n = 1",
            "k BIGINT, id BIGINT, PRIMARY KEY (k) NOT ENFORCED",
            LongStream.range(0, IDS / 500).mapToObj(k -> "(%d, %d)".formatted(k, 500 * k)).sorted().collect(Collectors.joining("\n")),
            "Deduplicate");

    /** The last id of each group. */
    static final Query LAST_BY_TIME = new Query(
            "INSERT INTO counts SELECT k, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM timed) "
                    + "WHERE n = 1",
            "k BIGINT, id BIGINT, PRIMARY KEY (k) NOT ENFORCED",
            LongStream.range(IDS - GROUPS, IDS)
                    .mapToObj(id -> "(%d, %d)".formatted(id % GROUPS, id))
                    .sorted()
                    .collect(Collectors.joining("\n")),
            "Deduplicate");

    /** The highest ids of all. */
    static final Query HIGHEST_OF_ALL = new Query(
            "INSERT INTO counts SELECT MOD(id, 3), COUNT(*), SUM(id) FROM (SELECT id FROM ids ORDER BY id DESC LIMIT 30) GROUP BY MOD(id, 3)",
            "k BIGINT, n BIGINT, s BIGINT, PRIMARY KEY (k) NOT ENFORCED",
            LongStream.range(0, 3)
                    .mapToObj(k -> "(%d, 10, %d)".formatted(k, 10 * (IDS - 30 + k) + 3 * 45))
                    .collect(Collectors.joining("\n")),
            "SortLimit");

    /** Some ids, most of them before the job stops. */
    static final Query SOME = new Query(
            "INSERT INTO counts SELECT 1, COUNT(*), COUNT(DISTINCT id) FROM (SELECT id FROM ids LIMIT 13000)",
            "k INT, n BIGINT, d BIGINT, PRIMARY KEY (k) NOT ENFORCED",
            "(1, 13000, 13000)",
            "Limit");

    /** Sums of the ids from each one to the last of its 20, in the order of a column that is no time. */
    static final Query RUNNING_BACKWARDS = new Query(
            "INSERT INTO counts SELECT MOD(MOD(id, %d), 7), COUNT(*), SUM(s) FROM (SELECT id, SUM(id) OVER (PARTITION BY id / 20 ORDER BY o) AS s "
                    .formatted(GROUPS)
                    + "FROM (SELECT id, -MOD(id, 20) AS o FROM ids)) GROUP BY MOD(MOD(id, %d), 7)".formatted(GROUPS),
            "k BIGINT, n BIGINT, s BIGINT, PRIMARY KEY (k) NOT ENFORCED",
            expectedSums(id -> LongStream.range(id, id / 20 * 20 + 20).sum()),
            "OverAggregate");

    static final Query FIRST_BY_ARRIVAL = byArrival("ASC", 0);
    static final Query LAST_BY_ARRIVAL = byArrival("DESC", IDS - TrialIdsFactory.PARTITIONS);
    static final Query LAST_UPSERTS = onePerKey("latest", "ChangelogNormalize", IDS - TrialIdsFactory.PARTITIONS);

    /** The ids with the second in which they are. */
    private static String inWindows(String columns) {
        return "SELECT " + columns + " FROM TABLE(TUMBLE(TABLE timed, DESCRIPTOR(ts), INTERVAL '1' SECOND))";
    }

    private static String numbered(String order) {
        return "ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY " + order + ") AS n";
    }

    private static String expectedCounts() {
        List<String> rows = new ArrayList<>();
        for (long key = 0; key < GROUPS; key++) {
            long count = (IDS - key + GROUPS - 1) / GROUPS;
            long last = key + (count - 1) * GROUPS;
            rows.add("('key %d', %d, %d, %d, %d, %d)".formatted(key, count, count * (key + last) / 2, count, key, last));
        }
        rows.sort(Comparator.naturalOrder());
        return String.join("\n", rows);
    }

    private static String matches(String ids) {
        return ("INSERT INTO counts SELECT MOD(a.id, 7), COUNT(*), COUNT(b.id), SUM(b.id) FROM %1$s AS a LEFT JOIN "
                        + "(SELECT id FROM %1$s WHERE MOD(id, 3) = 0) AS b ON a.id = b.id GROUP BY MOD(a.id, 7)")
                .formatted(ids);
    }

    private static String expectedMatches() {
        List<String> rows = new ArrayList<>();
        for (long key = 0; key < 7; key++) {
            final long residue = key;
            long count = LongStream.range(0, IDS).filter(id -> id % 7 == residue).count();
            LongSummaryStatistics found =
                    LongStream.range(0, IDS).filter(id -> id % 7 == residue && id % 3 == 0).summaryStatistics();
            rows.add("(%d, %d, %d, %d)".formatted(key, count, found.getCount(), found.getSum()));
        }
        return String.join("\n", rows);
    }

    private static String expectedHighest() {
        List<String> rows = new ArrayList<>();
        for (long key = 0; key < GROUPS; key++) {
            long highest = key + (IDS - 1 - key) / GROUPS * GROUPS;
            for (long rank = 1; rank <= 3; rank++) {
                rows.add("(%d, %d, %d)".formatted(key, rank, highest - (rank - 1) * GROUPS));
            }
        }
        rows.sort(Comparator.naturalOrder());
        return String.join("\n", rows);
    }

    private static String expectedBehind() {
        long[] sums = new long[(int) GROUPS];
        LongStream.range(0, IDS).forEach(id -> sums[(int) (id % GROUPS)] += id % 5);
        List<String> rows = new ArrayList<>();
        for (long group = 0; group < 3; group++) {
            final long residue = group;
            List<Long> keys = LongStream.range(0, GROUPS)
                    .filter(key -> key % 3 == residue)
                    .boxed()
                    .sorted(Comparator.<Long>comparingLong(key -> sums[key.intValue()]).thenComparing(key -> key))
                    .toList();
            for (int rank = 1; rank <= 4; rank++) {
                long key = keys.get(rank - 1);
                rows.add("(%d, %d, %d, %d)".formatted(group, rank, key, sums[(int) key]));
            }
        }
        rows.sort(Comparator.naturalOrder());
        return String.join("\n", rows);
    }

    /** Counts and sums per key of the first {@code used} ids of each {@code width}. */
    private static String expectedWindows(long width, long used) {
        List<String> rows = new ArrayList<>();
        for (long window = 0; window < IDS / width; window++) {
            LongSummaryStatistics[] ids = new LongSummaryStatistics[(int) GROUPS];
            for (long id = width * window; id < width * window + used; id++) {
                int key = (int) (id % GROUPS);
                ids[key] = ids[key] == null ? new LongSummaryStatistics() : ids[key];
                ids[key].accept(id);
            }
            for (int key = 0; key < GROUPS; key++) {
                rows.add("(%d, %d, %d, %d)".formatted(window, key, ids[key].getCount(), ids[key].getSum()));
            }
        }
        rows.sort(Comparator.naturalOrder());
        return String.join("\n", rows);
    }

    /** Of each key in each 1,000 ids the highest ones, from above: which thousand, the key, the rank and the id. */
    private static String expectedHighestInWindows(int ranks, String format) {
        List<String> rows = new ArrayList<>();
        for (long window = 0; window < IDS / 1000; window++) {
            for (long key = 0; key < GROUPS; key++) {
                long last = 1000 * window + 999;
                long highest = last - Math.floorMod(last - key, GROUPS);
                for (int rank = 1; rank <= ranks; rank++) {
                    rows.add("(" + format.formatted(window, key, rank, highest - (rank - 1) * GROUPS) + ")");
                }
            }
        }
        rows.sort(Comparator.naturalOrder());
        return String.join("\n", rows);
    }

    /** Per remainder by 7 of the keys: how many pairs of ids there are in each 1,000, and the sum of the second ones. */
    private static String expectedPairs() {
        long[] counts = new long[7];
        long[] sums = new long[7];
        for (long id = 0; id < IDS; id++) {
            int key = (int) (id % GROUPS);
            long first = id / 1000 * 1000;
            long others = LongStream.range(first, first + 1000).filter(other -> other % GROUPS == key).count();
            counts[key % 7] += others;
            sums[key % 7] += others * id;
        }
        return IntStream.range(0, 7).mapToObj(k -> "(%d, %d, %d)".formatted(k, counts[k], sums[k])).collect(Collectors.joining("\n"));
    }

    /** Per remainder by 7 of the keys: how many ids there are in the first 3,000 of each 4,000, and the sum of how long their sessions take. */
    private static String expectedSeconds() {
        long[] counts = new long[7];
        long[] sums = new long[7];
        for (long burst = 0; burst < IDS / 4000; burst++) {
            for (long key = 0; key < GROUPS; key++) {
                final long residue = key;
                LongSummaryStatistics ids = LongStream.range(4000 * burst, 4000 * burst + 3000)
                        .filter(id -> id % GROUPS == residue)
                        .summaryStatistics();
                counts[(int) (key % 7)] += ids.getCount();
                sums[(int) (key % 7)] += ids.getCount() * ((ids.getMax() - ids.getMin() + 500) / 1000);
            }
        }
        return IntStream.range(0, 7).mapToObj(k -> "(%d, %d, %d)".formatted(k, counts[k], sums[k])).collect(Collectors.joining("\n"));
    }

    /** Per remainder by 7 of the keys: how many ids there are, and the sum of what each is worth. */
    private static String expectedSums(LongUnaryOperator worth) {
        List<String> rows = new ArrayList<>();
        for (long key = 0; key < 7; key++) {
            final long residue = key;
            LongSummaryStatistics found = LongStream.range(0, IDS)
                    .filter(id -> id % GROUPS % 7 == residue)
                    .map(worth)
                    .summaryStatistics();
            rows.add("(%d, %d, %d)".formatted(key, found.getCount(), found.getSum()));
        }
        return String.join("\n", rows);
    }

    /** The first or last id of each remainder, which are {@code first} and those behind it. */
    private static Query byArrival(String direction, long first) {
        String ids = "SELECT MOD(id, %d) AS k, id, PROCTIME() AS pt FROM ids".formatted(TrialIdsFactory.PARTITIONS);
        String ranked = "SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt %s) AS rn FROM (%s)".formatted(direction, ids);
        return onePerKey("(SELECT k, id FROM (%s) WHERE rn = 1)".formatted(ranked), "Deduplicate", first);
    }

    /** Of a table with an id per remainder, three rows with four of them each; a key that is lost or held twice shows. */
    private static Query onePerKey(String table, String operator, long first) {
        List<String> rows = new ArrayList<>();
        for (long group = 0; group < 3; group++) {
            rows.add("(%d, 4, %d)".formatted(group, 4 * first + 4 * group + 18));
        }
        return new Query(
                "INSERT INTO counts SELECT MOD(k, 3), COUNT(*), SUM(id) FROM " + table + " GROUP BY MOD(k, 3)",
                "g BIGINT, n BIGINT, s BIGINT, PRIMARY KEY (g) NOT ENFORCED",
                String.join("\n", rows),
                operator);
    }

    /** The tables and views that the statements read. */
    static void createTables(StreamTableEnvironment environment, String trial) {
        environment.executeSql("CREATE TABLE ids (id BIGINT) WITH ('connector'='%s', 'rows'='%d', 'trial'='%s')"
                .formatted(TrialIdsFactory.IDENTIFIER, IDS, trial));
        environment.executeSql(("CREATE TABLE unique_ids (id BIGINT, PRIMARY KEY (id) NOT ENFORCED) "
                        + "WITH ('connector'='%s', 'rows'='%d', 'trial'='%s')")
                .formatted(TrialIdsFactory.IDENTIFIER, IDS, trial));
        // subtasks that are restored may be a quarter of the ids apart, which is no more than watermarks wait for
        environment.executeSql(("CREATE TABLE timed (id BIGINT, k AS MOD(id, %d), ts AS TO_TIMESTAMP_LTZ(id + 86400000, 3), "
                        + "WATERMARK FOR ts AS ts - INTERVAL '7' SECOND) WITH ('connector'='%s', 'rows'='%d', 'trial'='%s')")
                .formatted(GROUPS, TrialIdsFactory.IDENTIFIER, IDS, trial));
        environment.executeSql(("CREATE TABLE latest (k BIGINT, id BIGINT, PRIMARY KEY (k) NOT ENFORCED) "
                        + "WITH ('connector'='%s', 'rows'='%d', 'trial'='%s', 'upserts'='true')")
                .formatted(TrialIdsFactory.IDENTIFIER, IDS, trial));
        environment.executeSql("CREATE VIEW bursts AS SELECT * FROM timed WHERE MOD(id, 4000) < 3000");
        environment.executeSql(("CREATE TABLE versions (p BIGINT, id BIGINT, ts AS TO_TIMESTAMP_LTZ(id + 86400005, 3), "
                        + "WATERMARK FOR ts AS ts - INTERVAL '7' SECOND, PRIMARY KEY (p) NOT ENFORCED) "
                        + "WITH ('connector'='%s', 'rows'='%d', 'trial'='%s', 'upserts'='true')")
                .formatted(TrialIdsFactory.IDENTIFIER, IDS, trial));
    }
}
