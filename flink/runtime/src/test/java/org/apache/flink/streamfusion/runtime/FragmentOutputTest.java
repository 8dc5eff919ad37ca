package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;

import org.junit.jupiter.api.Test;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;

/** What a stage that sends fragments writes into them. */
class FragmentOutputTest extends NativeTestBase {

    /** Where the wire form of a fragment has the order and the attempt of its epoch. */
    private static final int ORDER_AT = 8;

    private static final int ATTEMPT_AT = 16;

    private static StageConfig sending() {
        return StageConfig.builder("Sender", splitting(FragmentSender.TYPE, 0))
                .rowInput(FragmentSender.TYPE, readsAll(FragmentSender.TYPE))
                .fragmentExchange()
                .latencyMs(0)
                .build();
    }

    /** The fragments of one row each, and the state afterwards. */
    private record Sent(List<ByteBuffer> fragments, OperatorSubtaskState state) {
        long order() {
            return the(ORDER_AT);
        }

        long attempt() {
            return the(ATTEMPT_AT);
        }

        private long the(int at) {
            assertThat(fragments).hasSize(3);
            assertThat(fragments.stream().map(fragment -> fragment.getLong(at)).distinct()).hasSize(1);
            return fragments.get(0).getLong(at);
        }
    }

    /** Sends after a restore from a checkpoint, or without one if there is no state. */
    private static Sent send(long checkpoint, OperatorSubtaskState state) throws Exception {
        final List<ByteBuffer> fragments = new ArrayList<>();
        try (StageHarness harness =
                new StageHarness(
                        sending(),
                        batch -> fragments.add(ByteBuffer.wrap(batch.encoded()).order(ByteOrder.LITTLE_ENDIAN)))) {
            if (state != null) {
                harness.setRestoredCheckpointId(checkpoint);
                harness.initializeState(state);
            }
            harness.open();
            for (long value = 0; value < 3; value++) {
                harness.process((RowData) GenericRowData.of(value));
            }
            return new Sent(fragments, harness.snapshot(checkpoint + 1, 0));
        }
    }

    @Test
    void theEpochIsOneMoreThanTheCheckpointThatWasRestored() throws Exception {
        final Sent fresh = send(6, null);
        assertThat(fresh.order()).isZero();
        final Sent restored = send(7, fresh.state());
        assertThat(restored.order()).isEqualTo(8);
        assertThat(send(12, restored.state()).order()).isEqualTo(13);
    }

    @Test
    void twoAttemptsFromTheSameCheckpointAreToldApart() throws Exception {
        final Sent fresh = send(6, null);
        assertThat(send(7, fresh.state()).attempt()).isNotEqualTo(send(7, fresh.state()).attempt());
    }

    @Test
    void aSenderHasSomethingInEachSnapshotSoThatFlinkTellsItTheCheckpoint() throws Exception {
        assertThat(send(6, null).state().getManagedOperatorState()).isNotEmpty();
    }
}
