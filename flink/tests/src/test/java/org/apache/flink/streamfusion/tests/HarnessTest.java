package org.apache.flink.streamfusion.tests;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.streamfusion.tests.connector.Change;
import org.apache.flink.streamfusion.tests.connector.ParityValuesFactory.RowForm;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

import org.junit.jupiter.api.Test;

import java.util.List;
import java.util.Set;

/** The harness sees what it claims to see, on stock Flink alone. */
class HarnessTest {
    private static final ParityInput INPUT = new ParityInput(
            "t", "k STRING NOT NULL, v BIGINT", "+I", List.of(Row.of("a", 1L), Row.of("b", null), Row.of("a", 4L)));

    @Test
    void changelogIsCollectedInOrderWithItsKinds() throws Exception {
        assertThat(stock("SELECT k, SUM(v) AS s FROM t GROUP BY k", INPUT, Set.of()))
                .hasToString("[+I('a', 1), +I('b', NULL), -U('a', 1), +U('a', 5)]");
    }

    @Test
    void upsertSinkGetsNoUpdateBefore() throws Exception {
        assertThat(stock("SELECT k, SUM(v) AS s FROM t GROUP BY k", INPUT, Set.of("k")))
                .hasToString("[+I('a', 1), +I('b', NULL), +U('a', 5)]");
    }

    @Test
    void retractionsReachTheQuery() throws Exception {
        ParityInput changelog = new ParityInput(
                "t",
                "k STRING NOT NULL, v BIGINT",
                "+I,-U,+U,-D",
                List.of(
                        Row.ofKind(RowKind.INSERT, "a", 1L),
                        Row.ofKind(RowKind.UPDATE_BEFORE, "a", 1L),
                        Row.ofKind(RowKind.UPDATE_AFTER, "a", 2L),
                        Row.ofKind(RowKind.DELETE, "a", 2L)));
        assertThat(stock("SELECT k, v + 1 FROM t", changelog, Set.of()))
                .hasToString("[+I('a', 2), -U('a', 2), +U('a', 3), -D('a', 3)]");
    }

    @Test
    void materializedTableKeepsWhatIsLeft() {
        List<Change> changelog = List.of(
                new Change(RowKind.INSERT, "[]", "(1)"),
                new Change(RowKind.INSERT, "[]", "(1)"),
                new Change(RowKind.DELETE, "[]", "(1)"),
                new Change(RowKind.UPDATE_BEFORE, "[]", "(2)"));
        assertThat(MaterializedTable.ofRetractions().applyAll(changelog).rows()).containsExactly("(1)", "missing (2)");
    }

    @Test
    void differenceNamesTheFirstRow() {
        assertThatThrownBy(() -> Difference.check("t", List.of("x", "y"), List.of("x", "z", "y")))
                .isInstanceOf(AssertionError.class)
                .hasMessageContaining("first difference at row 1");
    }

    @Test
    void failureIsTheInnermostException() {
        ParityInput input = new ParityInput("t", "v INT", "+I", List.of(Row.of(0)));
        assertThatThrownBy(() -> stock("SELECT 1 / v FROM t", input, Set.of()))
                .satisfies(thrown -> assertThat(Failure.of(thrown))
                        .isEqualTo(new Failure("java.lang.ArithmeticException", "/ by zero")));
    }

    private static List<Change> stock(String select, ParityInput input, Set<String> keys) throws Exception {
        Configuration configuration = new Configuration();
        Engine.STOCK.select(configuration);
        try (ParityJob job = new ParityJob(
                configuration, 1, ParityJob.SetUp.NONE, List.of(input), RowForm.MIXED, List.of(), keys, List.of(select))) {
            return job.execute().values().iterator().next();
        }
    }
}
