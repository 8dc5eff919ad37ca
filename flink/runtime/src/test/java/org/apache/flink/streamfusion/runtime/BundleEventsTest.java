package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.LatencyMarker;
import org.apache.flink.streaming.runtime.streamrecord.RecordAttributes;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.table.data.RowData;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.util.List;

/** What ends the bundles of a stage, and in which order their rows and other events leave. */
class BundleEventsTest extends NativeTestBase {

    private static StatefulHarness bundled(long rows) throws Exception {
        return new StatefulHarness(GroupBy.bundledStage(rows).build());
    }

    private static List<Object> events(StatefulHarness harness) {
        return harness.out.events.stream().map(BundleEventsTest::text).toList();
    }

    private static Object text(Object event) {
        return event instanceof RowData row ? row.getRowKind().shortString() + " " + GroupBy.text(row) : event;
    }

    @Test
    void aBundleLeavesInFrontOfTheWatermarkThatEndsIt() throws Exception {
        try (StatefulHarness harness = bundled(100).start(null)) {
            harness.process(1, 10);
            harness.process(1, 20);
            harness.processWatermark(5);
            harness.process(1, 30);
            harness.processWatermark(6);
            harness.processWatermark(7);
            assertThat(events(harness))
                    .containsExactly("+I 1 2 30", new Watermark(5), "+U 1 3 60", new Watermark(6), new Watermark(7));
        }
    }

    @Test
    void aStatusOfWatermarksAndRecordAttributesPassAnOpenBundle() throws Exception {
        try (StatefulHarness harness = bundled(100).start(null)) {
            harness.process(1, 10);
            harness.processWatermarkStatus(WatermarkStatus.IDLE);
            harness.processRecordAttributes(new RecordAttributes(true));
            assertThat(events(harness)).hasSize(2).startsWith(WatermarkStatus.IDLE).doesNotContain("+I 1 1 10");
            harness.processWatermark(5);
            assertThat(events(harness)).hasSize(4).endsWith("+I 1 1 10", new Watermark(5));
        }
    }

    @Test
    void aLatencyMarkerPassesAnOpenBundle() throws Exception {
        final LatencyMarker marker = new LatencyMarker(3, new OperatorID(), 0);
        try (StatefulHarness harness = bundled(3).start(null)) {
            harness.process(1, 10);
            harness.getOneInputOperator().processLatencyMarker(marker);
            harness.process(1, 20);
            assertThat(events(harness)).containsExactly(marker);
            harness.process(1, 30);
            harness.processWatermarkStatus(WatermarkStatus.IDLE);
            assertThat(events(harness)).containsExactly(marker, "+I 1 3 60", WatermarkStatus.IDLE);
        }
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 7})
    void aBundleIsFullAtItsSizeHoweverRowsTravel(long size) throws Exception {
        try (StatefulHarness harness = bundled(size).start(null)) {
            for (int i = 1; i <= 6; i++) {
                harness.process(1, 1);
            }
            harness.processWatermarkStatus(WatermarkStatus.IDLE);
            assertThat(events(harness)).hasSize((int) (6 / size) + 1).endsWith(WatermarkStatus.IDLE);
        }
    }

    @Test
    void aBundleEndsInFrontOfABarrierAndIsInTheSnapshot() throws Exception {
        final OperatorSubtaskState snapshot;
        try (StatefulHarness harness = bundled(100).start(null)) {
            harness.process(1, 10);
            harness.process(1, 20);
            snapshot = harness.checkpoint();
            assertThat(events(harness)).containsExactly("+I 1 2 30");
            harness.process(1, 40); // of a bundle that is lost and comes again
        }
        try (StatefulHarness harness = bundled(100).start(snapshot)) {
            harness.process(1, 30);
            harness.processWatermark(5);
            assertThat(events(harness)).containsExactly("+U 1 3 60", new Watermark(5));
        }
    }

    @Test
    void theLastBundleEndsWhenTheOperatorFinishes() throws Exception {
        try (StatefulHarness harness = bundled(100).start(null)) {
            harness.process(1, 10);
            harness.endInput();
            assertThat(events(harness)).isEmpty();
            harness.getOperator().finish();
            assertThat(events(harness)).containsExactly("+I 1 1 10");
        }
    }

    @Test
    void aBundleThatNothingEndsIsFreedWhenTheTaskIsCancelled() throws Exception {
        try (StatefulHarness harness = bundled(100).start(null)) {
            harness.process(1, 10);
            harness.processWatermarkStatus(WatermarkStatus.IDLE);
        }
    }
}
