package org.apache.flink.streamfusion.runtime;

import org.apache.flink.streaming.api.operators.TwoInputStreamOperator;
import org.apache.flink.streamfusion.runtime.TimedJoinHarness.Outcome;
import org.apache.flink.streamfusion.runtime.TimedJoinHarness.Step;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.operators.join.temporal.TemporalProcessTimeJoinOperator;
import org.apache.flink.table.runtime.operators.join.temporal.TemporalRowTimeJoinOperator;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.types.RowKind;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.util.Comparator;
import java.util.List;
import java.util.function.Supplier;

import static org.assertj.core.api.Assertions.assertThat;

/**
 * The temporal join of a native stage against Flink's own operator, over one sequence of changes of both inputs and of watermarks: out of
 * order, late, of equal times, NULL keys, deletes. What comes of each watermark is the same; the order of keys is not compared.
 */
class TemporalJoinParityTest extends NativeTestBase {

    private static final int STEPS = 300;
    private static final RowKind[] LEFT = {RowKind.INSERT, RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER};
    private static final RowKind[] RIGHT = {RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.UPDATE_AFTER, RowKind.DELETE};

    private static final Comparator<String> BY_KEY = Comparator.comparing(row -> row.split("\\|")[1]);

    private record Case(String type, boolean condition, long retention, boolean clock) {

        TwoInputStreamOperator<RowData, RowData, RowData> stock() {
            final InternalTypeInfo<RowData> input = InternalTypeInfo.of(TimedJoinHarness.INPUT);
            if (clock) {
                return new TemporalProcessTimeJoinOperator(
                        input, new TimedJoinHarness.Less(condition), retention, retention * 3 / 2, type.equals("LEFT"));
            }
            return new TemporalRowTimeJoinOperator(
                    input,
                    input,
                    new TimedJoinHarness.Less(condition),
                    1,
                    1,
                    retention,
                    retention * 3 / 2,
                    type.equals("LEFT"));
        }

        String node() {
            final String properties =
                    """
                    "joinSpec": %s, "isTemporalFunctionJoin": %s, "leftTimeAttributeIndex": 1, "rightTimeAttributeIndex": %d"""
                            .formatted(TimedJoinHarness.joinSpec(type, true, condition), clock, clock ? -1 : 1);
            return TimedJoinHarness.node("temporal-join", properties);
        }

        String config() {
            return "{\"table.exec.state.ttl\": \"" + retention + " ms\"}";
        }
    }

    @ParameterizedTest
    @CsvSource({"INNER, false, 0", "INNER, true, 0", "LEFT, false, 0", "LEFT, true, 0", "LEFT, true, 3600000"})
    void rowTime(String type, boolean condition, long retention) throws Exception {
        compare(new Case(type, condition, retention, false), false);
    }

    /** Rows among watermarks, of which those of the left input alone go on, or among steps of a clock that cleans up idle state. */
    @ParameterizedTest
    @CsvSource({"false, 0", "true, 0", "true, 6"})
    void processingTime(boolean condition, long retention) throws Exception {
        compare(new Case("INNER", condition, retention, true), retention > 0);
    }

    private static void compare(Case join, boolean clock) throws Exception {
        for (long seed = 0; seed < 4; seed++) {
            final List<Step> steps = TimedJoinHarness.steps(STEPS, seed, clock, LEFT, RIGHT);
            if (join.clock && !clock) {
                // watermarks of one input and of the other in turn
                steps.replaceAll(step -> step.isRow() ? step : new Step(1 + (int) (step.time() % 2), null, step.time()));
            }
            final Supplier<TwoInputStreamOperator<RowData, RowData, RowData>> stock = join::stock;
            for (int restoredAt : new int[] {-1, STEPS / 2}) {
                final List<Outcome> outcomes = TimedJoinHarness.stock(stock, steps, clock, restoredAt);
                final List<Outcome> expected = TimedJoinHarness.comparable(steps, outcomes, outcomes, BY_KEY);
                for (int batchRows : restoredAt < 0 ? TimedJoinHarness.BATCH_ROWS : new int[] {7}) {
                    final List<Outcome> natively =
                            TimedJoinHarness.natively(join.node(), join.config(), steps, batchRows, clock, restoredAt);
                    assertThat(TimedJoinHarness.comparable(steps, outcomes, natively, BY_KEY))
                            .as("%s, seed %d, in batches of %d, restored at %d", join, seed, batchRows, restoredAt)
                            .isEqualTo(expected);
                }
            }
        }
        assertThat(Native.liveHandles()).isZero();
    }
}
