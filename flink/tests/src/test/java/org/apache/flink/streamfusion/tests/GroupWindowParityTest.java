package org.apache.flink.streamfusion.tests;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.types.Row;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** GROUP BY with a window in it: what goes out per key, row by row. */
@RequiresNative
class GroupWindowParityTest {
    private static final String COLUMNS = "k STRING, v BIGINT, d DOUBLE, n DECIMAL(10, 2), b BOOLEAN, %s";
    private static final String LOCAL_TIME = "ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL %s";
    private static final String INSTANT = "ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL %s";
    private static final LocalDateTime NEW_YEAR = LocalDateTime.of(2013, 1, 1, 0, 0);

    @ParameterizedTest
    @CsvSource(quoteCharacter = '"', value = {
        "TUMBLE, '5' SECOND", "HOP, '0' SECOND", "HOP, '5' SECOND", "SESSION, '0' SECOND", "SESSION, '5' SECOND"
    })
    void windowsOfKeys(String window, String delay) throws Exception {
        String call = switch (window) {
            case "HOP" -> "HOP%s(ts, INTERVAL '3' SECOND, INTERVAL '10' SECOND)";
            default -> window + "%s(ts, INTERVAL '4' SECOND)";
        };
        String query = "INSERT INTO windows SELECT k, COUNT(*), SUM(v), AVG(d), MIN(d), COUNT(DISTINCT v), SUM(v) FILTER (WHERE b), "
                + "%1$s, %2$s, CAST(%3$s AS TIMESTAMP(3)) FROM t GROUP BY k, %4$s";
        Parity.of(query.formatted(
                        call.formatted("_START"), call.formatted("_END"), call.formatted("_ROWTIME"), call.formatted("")))
                .input("t", columns(LOCAL_TIME, delay), SessionWindowParityTest.rows(NEW_YEAR, false))
                .sink("windows", "k STRING, c BIGINT, s BIGINT, a DOUBLE, lo DOUBLE, x BIGINT, f BIGINT, w_start TIMESTAMP(3), "
                        + "w_end TIMESTAMP(3), w_time TIMESTAMP(3), PRIMARY KEY (k) NOT ENFORCED")
                .batchSizes(2, 4096)
                .expectNative("WatermarkAssigner", "Calc", "Exchange", "GroupWindowAggregate", "Calc")
                .perKey()
                .run();
    }

    @Test
    void windowsThatHopFurtherThanTheyAreLong() throws Exception {
        windows("HOP%s(ts, INTERVAL '7' SECOND, INTERVAL '3' SECOND)")
                .states(7, KeptState.HEAP, KeptState.ROCKSDB_WITHOUT_CACHE)
                .run();
    }

    @Test
    void windowsOfAllRowsTogether() throws Exception {
        Parity.of("SELECT COUNT(*), MAX(v), TUMBLE_END(ts, INTERVAL '5' SECOND) FROM t GROUP BY TUMBLE(ts, INTERVAL '5' SECOND)")
                .input("t", columns(LOCAL_TIME, "'3' SECOND"), SessionWindowParityTest.rows(NEW_YEAR, true))
                .batchSizes(7)
                .run();
    }

    @Test
    void firstAndLastValues() throws Exception {
        Parity.of("INSERT INTO windows SELECT k, FIRST_VALUE(v), LAST_VALUE(d) FROM t GROUP BY k, TUMBLE(ts, INTERVAL '5' SECOND)")
                .input("t", columns(LOCAL_TIME, "'3' SECOND"), SessionWindowParityTest.rows(NEW_YEAR, false))
                .sink("windows", "k STRING, v BIGINT, d DOUBLE, PRIMARY KEY (k) NOT ENFORCED")
                .batchSizes(7)
                .perKey()
                .run();
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "TUMBLE%s(ts, INTERVAL '4' SECOND)",
        "HOP%s(ts, INTERVAL '2' SECOND, INTERVAL '6' SECOND)",
        "SESSION%s(ts, INTERVAL '3' SECOND)"
    })
    void rowsThatAreTakenBack(String window) throws Exception {
        Parity.of("INSERT INTO windows SELECT k, COUNT(*), SUM(v), MAX(v), COUNT(DISTINCT v), %s FROM t GROUP BY k, %s"
                        .formatted(window.formatted("_END"), window.formatted("")))
                .changelog("t", columns(LOCAL_TIME, "'3' SECOND"), "+I,-U,+U,-D", updates())
                .sink("windows", "k STRING, c BIGINT, s BIGINT, m BIGINT, x BIGINT, w_end TIMESTAMP(3), PRIMARY KEY (k) NOT ENFORCED")
                .batchSizes(7)
                .perKey()
                .run();
    }

    @ParameterizedTest
    @CsvSource({
        "Asia/Shanghai, 2024-11-03T09:00", "Asia/Kolkata, 2024-11-03T09:00", "America/Los_Angeles, 2024-03-10T10:00",
        "America/Los_Angeles, 2024-11-03T09:00", "Pacific/Apia, 2011-12-30T10:00"
    })
    void instantsInTheTimeOfAZone(String zone, LocalDateTime change) throws Exception {
        List<Row> rows = SessionWindowParityTest.rows(change, false);
        rows.replaceAll(row -> {
            long seconds = java.time.Duration.between(change, row.getFieldAs(5)).toSeconds() * 60 - 3600;
            Row copy = Row.copy(row);
            copy.setField(5, change.toInstant(ZoneOffset.UTC).plusSeconds(seconds));
            return copy;
        });
        // windows on both sides of time that is left out end at one instant, in no order that Flink defines
        String key = change.toLocalDate().isEqual(LocalDate.of(2024, 11, 3)) ? "k" : "k, w_start";
        Parity parity = Parity.of("INSERT INTO windows SELECT k, COUNT(*), HOP_START(ts, INTERVAL '20' MINUTE, INTERVAL '1' HOUR), "
                        + "HOP_END(ts, INTERVAL '20' MINUTE, INTERVAL '1' HOUR) FROM t "
                        + "GROUP BY k, HOP(ts, INTERVAL '20' MINUTE, INTERVAL '1' HOUR)")
                .input("t", columns(INSTANT, "'2' MINUTE"), rows)
                .sink("windows", "k STRING, c BIGINT, w_start TIMESTAMP(3), w_end TIMESTAMP(3), PRIMARY KEY (" + key + ") NOT ENFORCED")
                .set("table.local-time-zone", zone)
                .batchSizes(7)
                .perKey();
        if (zone.equals("America/Los_Angeles")) {
            assertThat(parity.explain().stockNodes())
                    .anyMatch(node -> node.reasons().stream().anyMatch(reason -> reason.contains("daylight saving time")));
        } else {
            parity.run();
        }
    }

    @Test
    void earlyFiringStaysOnFlink() throws Exception {
        windows("TUMBLE%s(ts, INTERVAL '4' SECOND)")
                .set("table.exec.emit.early-fire.enabled", "true")
                .set("table.exec.emit.early-fire.delay", "1 h")
                .expectStock("GroupWindowAggregate", "early-fire")
                .expectStock("Exchange", "stays on Flink")
                .run();
    }

    private static Parity windows(String window) {
        return Parity.of("INSERT INTO windows SELECT k, COUNT(*), %s, %s FROM t GROUP BY k, %s"
                        .formatted(window.formatted("_START"), window.formatted("_END"), window.formatted("")))
                .input("t", columns(LOCAL_TIME, "'3' SECOND"), SessionWindowParityTest.rows(NEW_YEAR, false))
                .sink("windows", "k STRING, c BIGINT, w_start TIMESTAMP(3), w_end TIMESTAMP(3), PRIMARY KEY (k) NOT ENFORCED")
                .batchSizes(7)
                .perKey();
    }

    private static String columns(String time, String delay) {
        return COLUMNS.formatted(time.formatted(delay));
    }

    /** Rows, some of which are changed or taken back a little later. */
    private static List<Row> updates() {
        Random random = new Random(3);
        List<Row> rows = new ArrayList<>();
        List<Row> live = new ArrayList<>();
        for (Row row : SessionWindowParityTest.rows(NEW_YEAR, false)) {
            rows.add(row);
            live.add(row);
            if (live.size() > 3 && random.nextInt(3) == 0) {
                Row old = live.remove(random.nextInt(live.size()));
                Row before = Row.copy(old);
                before.setKind(org.apache.flink.types.RowKind.UPDATE_BEFORE);
                Row after = Row.copy(old);
                after.setKind(org.apache.flink.types.RowKind.UPDATE_AFTER);
                after.setField(1, (long) random.nextInt(5));
                rows.add(before);
                rows.add(after);
                Row changed = Row.copy(after);
                changed.setKind(org.apache.flink.types.RowKind.INSERT);
                live.add(changed);
            }
            if (live.size() > 3 && random.nextInt(4) == 0) {
                Row gone = Row.copy(live.remove(random.nextInt(live.size())));
                gone.setKind(org.apache.flink.types.RowKind.DELETE);
                rows.add(gone);
            }
        }
        return rows;
    }
}
