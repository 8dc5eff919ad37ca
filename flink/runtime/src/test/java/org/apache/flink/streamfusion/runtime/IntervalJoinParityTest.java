package org.apache.flink.streamfusion.runtime;

import org.apache.flink.streaming.api.operators.TwoInputStreamOperator;
import org.apache.flink.streaming.api.operators.co.KeyedCoProcessOperator;
import org.apache.flink.streamfusion.runtime.TimedJoinHarness.Outcome;
import org.apache.flink.streamfusion.runtime.TimedJoinHarness.Step;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.operators.join.FlinkJoinType;
import org.apache.flink.table.runtime.operators.join.KeyedCoProcessOperatorWithWatermarkDelay;
import org.apache.flink.table.runtime.operators.join.interval.IntervalJoinFunction;
import org.apache.flink.table.runtime.operators.join.interval.ProcTimeIntervalJoin;
import org.apache.flink.table.runtime.operators.join.interval.RowTimeIntervalJoin;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.types.RowKind;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

import java.util.Comparator;
import java.util.List;
import java.util.function.Supplier;

import static org.assertj.core.api.Assertions.assertThat;

/**
 * The interval join of a native stage against Flink's own operators, over one sequence of rows from both inputs and of watermarks: out of
 * order, late, of equal times, NULL keys. What comes of each row and of each watermark is the same; only where that is several
 * rows, their order is not compared, for in Flink it is that of a hash map.
 */
class IntervalJoinParityTest extends NativeTestBase {

    private static final int STEPS = 220;
    private static final RowKind[] INSERT = {RowKind.INSERT};

    private record Case(
            FlinkJoinType type, boolean filterNulls, boolean condition, long lower, long upper, long cleanUp, boolean rowTime) {

        TwoInputStreamOperator<RowData, RowData, RowData> stock() {
            final InternalTypeInfo<RowData> input = InternalTypeInfo.of(TimedJoinHarness.INPUT);
            final IntervalJoinFunction function =
                    new IntervalJoinFunction(
                            new TimedJoinHarness.Less(condition),
                            InternalTypeInfo.of(TimedJoinHarness.OUTPUT),
                            new boolean[] {filterNulls});
            if (!rowTime) {
                return new KeyedCoProcessOperator<>(
                        new ProcTimeIntervalJoin(type, lower, upper, cleanUp, input, input, function));
            }
            final RowTimeIntervalJoin join =
                    new RowTimeIntervalJoin(type, lower, upper, 0, cleanUp, input, input, function, 1, 1);
            return new KeyedCoProcessOperatorWithWatermarkDelay<>(join, join.getMaxOutputDelay());
        }

        String node() {
            final String properties =
                    """
                    "intervalJoinSpec": {"joinSpec": %s, "windowBounds": {"isEventTime": %s, "leftLowerBound": %d,
                     "leftUpperBound": %d, "leftTimeIndex": 1, "rightTimeIndex": 1}}"""
                            .formatted(
                                    TimedJoinHarness.joinSpec(type.name(), filterNulls, condition), rowTime, lower, upper);
            return TimedJoinHarness.node("interval-join", properties);
        }

        String config() {
            return "{\"table.exec.interval-join.min-cleanup-interval\": \"" + cleanUp + " ms\"}";
        }
    }

    @ParameterizedTest
    @EnumSource(value = FlinkJoinType.class, names = {"INNER", "LEFT", "RIGHT", "FULL"})
    void rowTime(FlinkJoinType type) throws Exception {
        long seed = 0;
        final long[][] bounds = {{-10, 5}, {0, 0}, {-20, -5}, {3, 9}, {-15, 15}};
        for (long[] bound : bounds) {
            for (long cleanUp : new long[] {0, 12}) {
                final boolean odd = seed % 2 == 1;
                check(new Case(type, !odd, seed % 3 == 1, bound[0], bound[1], cleanUp, true), seed++);
            }
        }
    }

    @ParameterizedTest
    @EnumSource(value = FlinkJoinType.class, names = {"INNER", "LEFT", "RIGHT", "FULL"})
    void processingTime(FlinkJoinType type) throws Exception {
        check(new Case(type, true, false, -10, 5, 0, false), 50);
        check(new Case(type, false, true, -3, 8, 6, false), 51);
        check(new Case(type, true, true, 2, 9, 4, false), 52);
        check(new Case(type, true, false, -9, -4, 0, false), 53);
    }

    private static void check(Case join, long seed) throws Exception {
        final boolean clock = !join.rowTime();
        final List<Step> steps = TimedJoinHarness.steps(STEPS, seed, clock, INSERT, INSERT);
        final Supplier<TwoInputStreamOperator<RowData, RowData, RowData>> stock = join::stock;
        for (int restoredAt : new int[] {-1, STEPS / 2}) {
            final List<Outcome> outcomes = TimedJoinHarness.stock(stock, steps, clock, restoredAt);
            final List<Outcome> expected = TimedJoinHarness.comparable(steps, outcomes, outcomes, Comparator.naturalOrder());
            for (int batchRows : restoredAt < 0 ? TimedJoinHarness.BATCH_ROWS : new int[] {7}) {
                final List<Outcome> natively =
                        TimedJoinHarness.natively(join.node(), join.config(), steps, batchRows, clock, restoredAt);
                assertThat(TimedJoinHarness.comparable(steps, outcomes, natively, Comparator.naturalOrder()))
                        .as("%s in batches of %d, restored at %d", join, batchRows, restoredAt)
                        .isEqualTo(expected);
            }
        }
        assertThat(Native.liveHandles()).isZero();
    }
}
