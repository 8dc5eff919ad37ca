package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;

import org.junit.jupiter.api.Test;

import java.math.BigDecimal;
import java.util.List;

/** Rows inside rows: read in part, handed on whole, missing at any level. */
@RequiresNative
class NestedRowParityTest {
    private static final String DDL = "id INT, r ROW<a INT, s STRING, i ROW<x BIGINT, d DECIMAL(20, 2), t STRING>, unused STRING>";
    private static final List<Row> ROWS = List.of(
            Row.of(1, Row.of(10, "ten", Row.of(100L, new BigDecimal("1.25"), "deep"), "u")),
            Row.of(2, null),
            Row.of(3, Row.of(null, null, null, null)),
            Row.of(4, Row.of(40, "", Row.of(null, null, null), "u")),
            Row.of(5, Row.of(-1, "\ud83d\ude00", Row.of(Long.MIN_VALUE, new BigDecimal("-0.01"), ""), null)),
            Row.of(1, Row.of(10, "ten", Row.of(7L, new BigDecimal("2.50"), "x"), "u")));

    @Test
    void fieldsAreReadAtAnyDepth() throws Exception {
        Parity.of("SELECT id, r.a, r.s, t.r.i.x, t.r.i.d, t.r.i.t FROM t")
                .input("t", DDL, ROWS)
                .expectNative("Calc")
                .expectHosted()
                .batchSizes(1, 2, 7, 8192)
                .run();
    }

    @Test
    void oneDeepFieldIsEnough() throws Exception {
        Parity.of("SELECT t.r.i.x + 1 FROM t WHERE t.r.i.x IS NOT NULL")
                .input("t", DDL, ROWS)
                .run();
    }

    @Test
    void wholeRowsPassThrough() throws Exception {
        Parity.of("SELECT id, r, t.r.i FROM t WHERE id > 0").input("t", DDL, ROWS).run();
    }

    @Test
    void nullnessOfARowIsItsOwn() throws Exception {
        Parity.of("SELECT id, r IS NULL, t.r.i IS NULL, t.r.i.x IS NULL FROM t")
                .input("t", DDL, ROWS)
                .run();
    }

    @Test
    void nestedFieldsAreKeysAndArguments() throws Exception {
        Parity.of("SELECT t.r.a, COUNT(*), SUM(t.r.i.x), MAX(t.r.i.t), COUNT(DISTINCT t.r.s) FROM t GROUP BY t.r.a")
                .input("t", DDL, ROWS)
                .run();
    }

    @Test
    void rowsAreKeysOnFlink() throws Exception {
        Parity.of("SELECT r, COUNT(*) FROM t WHERE id + 1 > 0 GROUP BY r")
                .input("t", DDL, ROWS)
                .expectNative("Calc")
                .expectStock("Exchange", "keys of type ROW are not supported natively")
                .expectStock("GroupAggregate", "keys of type ROW are not supported natively")
                .run();
    }
}
