package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.runtime.generated.GeneratedFunction;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.util.Collector;

import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.util.ArrayList;
import java.util.List;

/** Expressions that run in the JVM, called from the library in the middle of a stage. */
class HostCallsTest extends NativeTestBase {

    private static final RowType INPUT =
            (RowType)
                    DataTypes.ROW(
                                    DataTypes.FIELD("n", DataTypes.BIGINT()),
                                    DataTypes.FIELD("unread", DataTypes.BIGINT()),
                                    DataTypes.FIELD("s", DataTypes.STRING()))
                            .getLogicalType();
    private static final RowType OUTPUT =
            (RowType)
                    DataTypes.ROW(
                                    DataTypes.FIELD("n", DataTypes.BIGINT()),
                                    DataTypes.FIELD("t", DataTypes.STRING()))
                            .getLogicalType();

    private static final List<String> LIFECYCLE = new ArrayList<>();

    /** Repeats the text n times; what it does instead with n of 100 and more is tested. */
    private static final class Repeat extends RichFlatMapFunction<RowData, RowData> {
        private static final long serialVersionUID = 1L;

        @Override
        public void open(OpenContext context) {
            LIFECYCLE.add("open " + getRuntimeContext().getTaskInfo().getIndexOfThisSubtask());
        }

        @Override
        public void flatMap(RowData row, Collector<RowData> out) throws Exception {
            assertThat(row.getArity()).isEqualTo(3);
            assertThat(row.isNullAt(1)).as("a field that is not read").isTrue();
            final long n = row.isNullAt(0) ? 0 : row.getLong(0);
            if (n == 100) {
                throw new CheckedFailure("thrown by the function");
            }
            final GenericRowData result = GenericRowData.of(row.isNullAt(0) ? StringData.fromString("constant") : null);
            if (!row.isNullAt(2)) {
                result.setField(0, StringData.fromString(row.getString(2).toString().repeat((int) n)));
            }
            for (int i = n == 101 ? 1 : n == 102 ? -1 : 0; i < 1; i++) {
                out.collect(result);
            }
        }

        @Override
        public void close() {
            LIFECYCLE.add("close");
        }
    }

    private static final class CheckedFailure extends Exception {
        private static final long serialVersionUID = 1L;

        CheckedFailure(String message) {
            super(message);
        }
    }

    /** Needs no compiler. */
    private static final class Instance extends GeneratedFunction<FlatMapFunction<RowData, RowData>> {
        private static final long serialVersionUID = 1L;

        Instance() {
            super("Repeat", "", new Object[0]);
        }

        @Override
        public FlatMapFunction<RowData, RowData> newInstance(ClassLoader classLoader) {
            return new Repeat();
        }
    }

    private static StageConfig config(int maxBatchRows) {
        final String call =
                "{\"kind\":\"CALL\",\"catalogName\":\"`a`.`b`.`repeat`\",\"operands\":["
                        + "{\"kind\":\"INPUT_REF\",\"inputIndex\":0,\"type\":\"BIGINT\"},"
                        + "{\"kind\":\"INPUT_REF\",\"inputIndex\":2,\"type\":\"VARCHAR(2147483647)\"}],"
                        + "\"type\":\"VARCHAR(2147483647)\"}";
        final String calc =
                String.format(
                        "{\"json\":{\"id\":2,\"type\":\"stream-exec-calc_1\",\"projection\":["
                                + "{\"kind\":\"INPUT_REF\",\"inputIndex\":0,\"type\":\"BIGINT\"},%s],\"condition\":null,"
                                + "\"inputProperties\":[{\"requiredDistribution\":{\"type\":\"UNKNOWN\"},"
                                + "\"damBehavior\":\"PIPELINED\",\"priority\":0}],\"outputType\":\"%s\","
                                + "\"description\":\"Calc(select=[n, repeat(n, s)])\"},\"inputs\":[1],\"types\":[\"%s\"]}",
                        call, OUTPUT.asSerializableString(), INPUT.asSerializableString());
        final String spec = spec(INPUT, OUTPUT, calc, "{\"node\":2,\"pointer\":\"/projection/1\"}", "null");
        final HostFunction host =
                new HostFunction(
                        new Instance(),
                        INPUT,
                        new int[] {0, 2},
                        DataTypes.STRING().getLogicalType(),
                        entrySpec(RowType.of(DataTypes.STRING().getLogicalType())));
        return StageConfig.builder("Stage", spec)
                .rowInput(INPUT, readsAll(INPUT))
                .rowOutput(OUTPUT)
                .host(host)
                .maxBatchRows(maxBatchRows)
                .build();
    }

    /** The same, with a call that has no operands. */
    private static StageConfig withoutInputs() {
        final StageConfig config = config(3);
        final int from = config.spec.indexOf("\"operands\":[") + "\"operands\":[".length();
        final String spec = config.spec.substring(0, from) + config.spec.substring(config.spec.indexOf("],\"type\":\"VARCHAR", from));
        final HostFunction host = (HostFunction) config.hosts[0];
        return StageConfig.builder("Stage", spec)
                .rowInput(INPUT, readsAll(INPUT))
                .rowOutput(OUTPUT)
                .host(new HostFunction(new Instance(), INPUT, new int[0], host.outputType(), host.outputSpec()))
                .build();
    }

    private static RowData row(long n, String text) {
        return GenericRowData.of(n, 99L, StringData.fromString(text));
    }

    @BeforeEach
    void forget() {
        LIFECYCLE.clear();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 7, 20_000})
    void resultsBelongToTheirRows(int maxBatchRows) throws Exception {
        final int rows = maxBatchRows > 1000 ? 20_000 : 50; // also more than the usual buffers hold
        try (StageHarness harness = new StageHarness(config(maxBatchRows))) {
            harness.open();
            for (int i = 0; i < rows; i++) {
                harness.process(row(i % 5, i % 3 == 0 ? null : "<" + i + ">"));
            }
            harness.endInput();
            final List<RowData> result = harness.out.rows();
            assertThat(result).hasSize(rows);
            for (int i = 0; i < rows; i++) {
                assertThat(result.get(i).getLong(0)).isEqualTo(i % 5);
                if (i % 3 == 0) {
                    assertThat(result.get(i).isNullAt(1)).isTrue();
                } else {
                    assertThat(result.get(i).getString(1)).hasToString(("<" + i + ">").repeat(i % 5));
                }
            }
        }
    }

    @Test
    void anExpressionWithoutInputsHasAResultForEachRow() throws Exception {
        try (StageHarness harness = new StageHarness(withoutInputs())) {
            harness.open();
            harness.process(row(1, "a"));
            harness.process(row(2, "b"));
            harness.endInput();
            assertThat(harness.out.rows())
                    .extracting(row -> row.getLong(0) + " " + row.getString(1))
                    .containsExactly("1 constant", "2 constant");
        }
    }

    @Test
    void functionsAreOpenedAndClosedOnce() throws Exception {
        try (StageHarness harness = new StageHarness(config(1))) {
            harness.open();
            harness.process(row(1, "a"));
            harness.process(row(2, "b"));
            assertThat(LIFECYCLE).containsExactly("open 0");
        }
        assertThat(LIFECYCLE).containsExactly("open 0", "close");
    }

    @Test
    void whatAFunctionThrowsComesOutUnchanged() throws Exception {
        try (StageHarness harness = new StageHarness(config(1))) {
            harness.open();
            assertThatThrownBy(() -> harness.process(row(100, "a")))
                    .cause()
                    .isInstanceOf(CheckedFailure.class)
                    .hasMessage("thrown by the function");
        }
        assertThat(LIFECYCLE).containsExactly("open 0", "close");
    }

    @ParameterizedTest
    @ValueSource(longs = {101, 102})
    void aFunctionThatDoesNotMakeOneResultIsAnError(long n) throws Exception {
        try (StageHarness harness = new StageHarness(config(3))) {
            harness.open();
            harness.process(row(1, "a"));
            harness.process(row(n, "b"));
            assertThatThrownBy(harness::endInput)
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining(n == 101 ? "0 results" : "2 results");
        }
    }
}
