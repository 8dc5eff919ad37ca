package org.apache.flink.streamfusion.tests;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.types.Row;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * Every expression of the lists in {@code resources/expressions} over edge values, on both engines.
 *
 * <p>A line is {@code native} or {@code jvm}, then the expression: evaluated by Rust alone, or with a part of it, or all of it,
 * evaluated in the JVM inside the native Calc.
 */
@RequiresNative
class ExpressionParityTest {
    private static final List<EdgeValues.Column> COLUMNS = EdgeValues.allTypes();
    private static final int ROWS = 120;
    private static final int EXPRESSIONS_PER_JOB = 40;

    /** An expression and who evaluates it. */
    private record Line(String engine, String expression) {}

    @ParameterizedTest
    @ValueSource(strings = {"numbers", "texts", "times"})
    void resultsAreThoseOfFlink(String list) throws Exception {
        List<Line> lines = read(list);
        for (int start = 0; start < lines.size(); start += EXPRESSIONS_PER_JOB) {
            parity(lines.subList(start, Math.min(lines.size(), start + EXPRESSIONS_PER_JOB)))
                    .run();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"numbers", "texts", "times"})
    void expressionsRunWhereTheListSays(String list) throws Exception {
        List<String> found = new ArrayList<>();
        List<String> listed = new ArrayList<>();
        for (Line line : read(list)) {
            listed.add(line.engine() + " " + line.expression());
            found.add(engineOf(line.expression()) + " " + line.expression());
        }
        assertThat(found).isEqualTo(listed);
    }

    private static String engineOf(String expression) {
        PlanReport plan = parity(List.of(new Line("", expression))).explain();
        assertThat(plan.nativeNodes()).as(plan.decisions()).hasSize(1);
        return plan.hostedExpressions().isEmpty() ? "native" : "jvm";
    }

    private static Parity parity(List<Line> lines) {
        List<String> projection = new ArrayList<>();
        projection.add("id");
        for (Line line : lines) {
            projection.add(line.expression() + " AS e" + projection.size());
        }
        List<Row> rows = EdgeValues.numbered(EdgeValues.rows(COLUMNS, ROWS, 1));
        return Parity.of("SELECT " + String.join(", ", projection) + " FROM t")
                .set("table.local-time-zone", "Asia/Shanghai")
                .input("t", "id INT, " + EdgeValues.ddl(COLUMNS), rows);
    }

    private static List<Line> read(String list) throws IOException {
        try (InputStream stream = ExpressionParityTest.class.getResourceAsStream("/expressions/" + list + ".txt")) {
            return new String(stream.readAllBytes(), StandardCharsets.UTF_8)
                    .lines()
                    .filter(line -> !line.isBlank() && !line.startsWith("#"))
                    .map(line -> line.split("\\s+", 2))
                    .map(parts -> new Line(parts[0], parts[1]))
                    .toList();
        }
    }
}
