package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;

import org.junit.jupiter.api.Test;

import java.util.ArrayList;
import java.util.List;

/** Values of every type enter, travel and leave unchanged. */
@RequiresNative
class TypesParityTest {
    private static final List<EdgeValues.Column> COLUMNS = EdgeValues.allTypes();
    private static final List<Row> ROWS = EdgeValues.numbered(EdgeValues.rows(COLUMNS, 100, 7));
    private static final String DDL = "id INT NOT NULL, " + EdgeValues.ddl(COLUMNS);

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

    @Test
    void everyTypeIsAKey() throws Exception {
        List<String> statements = new ArrayList<>();
        Parity parity = null;
        for (EdgeValues.Column column : COLUMNS) {
            statements.add("INSERT INTO s_%1$s SELECT `%1$s`, COUNT(*) FROM t GROUP BY `%1$s`".formatted(column.name()));
        }
        parity = Parity.of(statements.toArray(String[]::new)).input("t", DDL, ROWS);
        for (EdgeValues.Column column : COLUMNS) {
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
