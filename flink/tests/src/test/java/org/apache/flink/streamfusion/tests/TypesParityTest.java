package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** Values of every type enter, travel and leave unchanged. */
@RequiresNative
class TypesParityTest {
    private static final List<EdgeValues.Column> COLUMNS = EdgeValues.allTypes();
    private static final List<Row> ROWS = EdgeValues.numbered(EdgeValues.rows(COLUMNS, 100, 7));
    private static final String DDL = "id INT NOT NULL, " + EdgeValues.ddl(COLUMNS);
    private static final int SINKS_PER_JOB = 6;

    static Stream<List<EdgeValues.Column>> someColumns() {
        return IntStream.iterate(0, start -> start < COLUMNS.size(), start -> start + SINKS_PER_JOB)
                .mapToObj(start -> COLUMNS.subList(start, Math.min(COLUMNS.size(), start + SINKS_PER_JOB)));
    }

    @Test
    void calcPassesEveryTypeThrough() throws Exception {
        Parity.of("SELECT " + names() + ", id FROM t WHERE id > 0")
                .input("t", DDL, ROWS)
                .expectNative("Calc")
                .expectHosted()
                .batchSizes(1, 2, 7, 8192)
                .run();
    }

    @Test
    void calcKeepsRowKindsOfEveryType() throws Exception {
        Parity.of("SELECT " + names() + ", id FROM t WHERE id <> 5")
                .changelog("t", DDL, "+I,-U,+U,-D", Changelogs.retracting(ROWS, 3))
                .expectNative("Calc")
                .run();
    }

    @ParameterizedTest
    @MethodSource("someColumns")
    void everyTypeIsAKey(List<EdgeValues.Column> columns) throws Exception {
        String[] statements = columns.stream()
                .map(EdgeValues.Column::name)
                .map(name -> "INSERT INTO s_%1$s SELECT `%1$s`, COUNT(*) FROM t GROUP BY `%1$s`".formatted(name))
                .toArray(String[]::new);
        Parity parity = Parity.of(statements).input("t", DDL, ROWS).batchSizes(1, 8192);
        for (EdgeValues.Column column : columns) {
            parity.sink("s_" + column.name(), column.ddl() + ", n BIGINT");
        }
        parity.run();
    }

    @Test
    void severalTypesAreOneKey() throws Exception {
        String keys = "c_boolean, c_tinyint, c_double, c_decimal_38_0, c_string, c_timestamp_9, c_decimal_5_2";
        Parity.of("SELECT " + keys + ", COUNT(*), MAX(id) FROM t GROUP BY " + keys)
                .input("t", DDL, ROWS)
                .expectNative("Calc", "Exchange", "GroupAggregate")
                .run();
    }

    @Test
    void rowsOfEveryTypeSpreadOverSubtasks() throws Exception {
        Parity.of("SELECT c_string, c_timestamp_9, c_decimal_19_9, COUNT(*), SUM(id), MIN(c_date) FROM t "
                        + "GROUP BY c_string, c_timestamp_9, c_decimal_19_9")
                .input("t", DDL, ROWS)
                .parallelism(2)
                .run();
    }

    private static String names() {
        return String.join(", ", COLUMNS.stream().map(EdgeValues.Column::name).toList());
    }
}
