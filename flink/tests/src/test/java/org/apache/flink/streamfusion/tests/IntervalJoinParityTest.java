package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/**
 * Interval joins in whole jobs. Which input's row comes first is not fixed in Flink, so that what the changelogs leave is compared, of rows
 * that are out of order but not late; the changelogs themselves, late rows included, are compared where both inputs are fed by hand, in
 * the tests of the stage.
 */
@RequiresNative
class IntervalJoinParityTest {
    private static final int ROWS = 400;
    private static final LocalDateTime START = LocalDateTime.of(2024, 3, 10, 1, 0);
    private static final String COLUMNS = "k INT, u INT NOT NULL, v STRING, ts TIMESTAMP(3), pt AS PROCTIME(), "
            + "WATERMARK FOR ts AS ts - INTERVAL '20' SECOND";
    private static final String NEAR = "l.ts BETWEEN r.ts - INTERVAL '10' SECOND AND r.ts + INTERVAL '5' SECOND";
    private static final String[] NODES = {
        "Calc", "WatermarkAssigner", "Exchange", "Calc", "WatermarkAssigner", "Exchange", "IntervalJoin", "Calc"
    };

    private static Parity join(String select) {
        return Parity.of(select)
                .input("l", COLUMNS, rows(1))
                .input("r", COLUMNS, rows(2))
                .batchSizes(1, 2, 7, 4096)
                .finalTable();
    }

    /** Times go on by two seconds a row and are out of order by up to 20; some are equal. */
    private static List<Row> rows(long seed) {
        Random random = new Random(seed);
        List<Row> rows = new ArrayList<>();
        for (int row = 0; row < ROWS; row++) {
            Integer key = random.nextInt(12) == 0 ? null : random.nextInt(6);
            String text = random.nextInt(8) == 0 ? null : "v" + random.nextInt(9);
            rows.add(Row.of(key, random.nextInt(50), text, START.plusSeconds(2L * row - random.nextInt(20))));
        }
        return rows;
    }

    @ParameterizedTest
    @CsvSource({"JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"})
    void types(String type) throws Exception {
        join("SELECT l.k, l.u, l.v, r.u, r.v FROM l " + type + " r ON l.k = r.k AND " + NEAR).run();
        join("SELECT l.k, l.u, l.v, r.u, r.v FROM l " + type + " r ON l.k = r.k AND l.u < r.u AND " + NEAR)
                .set("table.exec.interval-join.min-cleanup-interval", "30 s")
                .run();
    }

    @Test
    void nodes() throws Exception {
        join("SELECT l.u, r.u, l.ts FROM l JOIN r ON l.k = r.k AND " + NEAR).expectNative(NODES).run();
    }

    @Test
    void intervalsOnOneSideOfTheOther() throws Exception {
        join("SELECT l.u, r.u FROM l FULL JOIN r ON l.k = r.k AND l.ts >= r.ts + INTERVAL '3' SECOND AND l.ts < r.ts + INTERVAL '9' SECOND")
                .run();
        join("SELECT l.u, r.u FROM l LEFT JOIN r ON l.k = r.k AND l.ts = r.ts")
                .states(7, KeptState.HEAP, KeptState.ROCKSDB_WITHOUT_CACHE)
                .run();
    }

    @ParameterizedTest
    @CsvSource({"JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"})
    void emptyIntervals(String type) throws Exception {
        join("SELECT l.u, r.u FROM l " + type + " r ON l.k = r.k AND l.ts >= r.ts + INTERVAL '9' SECOND AND l.ts < r.ts").run();
    }

    @Test
    void otherKeys() throws Exception {
        join("SELECT l.u, r.u FROM l FULL JOIN r ON l.k IS NOT DISTINCT FROM r.k AND " + NEAR).run();
        join("SELECT l.u, r.u FROM l LEFT JOIN r ON l.v = r.v AND l.k = r.k AND " + NEAR).run();
        join("SELECT l.u, r.u FROM l JOIN r ON l.u < r.u AND l.ts BETWEEN r.ts - INTERVAL '1' SECOND AND r.ts").run();
    }

    @Test
    void inParallel() throws Exception {
        join("SELECT l.k, l.u, r.u FROM l FULL JOIN r ON l.k = r.k AND " + NEAR).parallelism(2).run();
    }

    @Test
    void windowsBehindIt() throws Exception {
        join("SELECT l.k, COUNT(*) FROM l JOIN r ON l.k = r.k AND " + NEAR + " GROUP BY l.k").run();
    }

    /** All rows come within the interval, and nothing is padded before the end. */
    @Test
    void processingTime() throws Exception {
        join("SELECT l.u, r.u FROM l JOIN r ON l.k = r.k AND l.pt BETWEEN r.pt - INTERVAL '1' HOUR AND r.pt + INTERVAL '1' HOUR").run();
    }

    @Test
    void rowsOfEveryType() throws Exception {
        List<EdgeValues.Column> columns = EdgeValues.allTypes();
        String ddl = "k INT, ts TIMESTAMP(3), " + EdgeValues.apartDdl(columns) + ", WATERMARK FOR ts AS ts";
        Parity.of("SELECT l.k, l.of_type, " + EdgeValues.names(columns, "l") + ", " + EdgeValues.names(columns, "r")
                        + " FROM l LEFT JOIN r ON l.k = r.k AND " + NEAR)
                .input("l", ddl, EdgeValues.apart(columns, column -> everySecond(columns, column, 0)))
                .input("r", ddl, EdgeValues.apart(columns, column -> everySecond(columns, column, 1)))
                .finalTable()
                .run();
    }

    /** Of rows with few keys those whose position is even, or odd. Each type comes behind the one before it, so that no row is late. */
    private static List<Row> everySecond(List<EdgeValues.Column> columns, EdgeValues.Column column, int first) {
        LocalDateTime start = START.plusHours(columns.indexOf(column));
        List<Row> values = EdgeValues.rows(List.of(column), 60, 5);
        List<Row> rows = new ArrayList<>();
        for (int row = first; row < values.size(); row += 2) {
            rows.add(Row.of(row / 2 % 7, start.plusSeconds(row), values.get(row).getField(0)));
        }
        return rows;
    }
}
