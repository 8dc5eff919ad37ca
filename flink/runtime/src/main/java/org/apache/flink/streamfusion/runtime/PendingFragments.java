package org.apache.flink.streamfusion.runtime;

import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.OperatorStateStore;
import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.KeyGroupStatePartitionStreamProvider;
import org.apache.flink.runtime.state.KeyedStateCheckpointOutputStream;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * Fragments that miss siblings, between the library and snapshots.
 *
 * <p>They are raw keyed state: per key group the length of what the library wrote, as an int, and its bytes.
 *
 * <p>RocksDB with timers on the heap writes those timers to the raw keyed state of an ordinary checkpoint, and an operator that
 * wants to write there as well fails. In such a checkpoint they are elements of an operator state that goes to every subtask, each
 * with its key group in front as a short; one element is only a mark, so that the raw keyed state of such a checkpoint is not
 * taken for fragments.
 */
final class PendingFragments {

    /** Where fragments are that are not raw keyed state. */
    private static final ListStateDescriptor<byte[]> BESIDE_TIMERS =
            new ListStateDescriptor<>("__streamfusion_pending_fragments_v3", BytePrimitiveArraySerializer.INSTANCE);

    private static final byte[] MARK = new byte[0];

    private final String description;

    /** Of a snapshot, until the stage is there to take them. */
    private final SortedMap<Integer, List<byte[]>> restored = new TreeMap<>();

    private final OperatorStateStore operatorState;

    private PendingFragments(String description, OperatorStateStore operatorState) {
        this.description = description;
        this.operatorState = operatorState;
    }

    /** Reads what a snapshot has for the key groups of this subtask. */
    static PendingFragments of(String description, StateInitializationContext context, KeyGroupRange keyGroups)
            throws Exception {
        final PendingFragments pending = new PendingFragments(description, context.getOperatorStateStore());
        if (!pending.readBesideTimers(keyGroups)) {
            for (KeyGroupStatePartitionStreamProvider provider : context.getRawKeyedStateInputs()) {
                pending.add(provider.getKeyGroupId(), pending.read(provider));
            }
        }
        return pending;
    }

    private byte[] read(KeyGroupStatePartitionStreamProvider provider) throws IOException {
        // the stream is shared by all key groups of a handle: nothing may be read ahead
        final DataInputStream in = new DataInputStream(provider.getStream());
        try {
            final int length = in.readInt();
            // what is not there is not allocated either
            final byte[] bytes = length < 0 ? new byte[0] : in.readNBytes(length);
            if (bytes.length == length) {
                return bytes;
            }
        } catch (EOFException e) {
            // told below
        }
        throw new NativeException(
                description
                        + ": the fragments in the checkpoint of key group "
                        + provider.getKeyGroupId()
                        + " end too early; the snapshot is damaged");
    }

    private boolean readBesideTimers(KeyGroupRange keyGroups) throws Exception {
        if (!operatorState.getRegisteredStateNames().contains(BESIDE_TIMERS.getName())) {
            return false;
        }
        boolean marked = false;
        for (byte[] element : operatorState.getUnionListState(BESIDE_TIMERS).get()) {
            marked = true;
            final ByteBuffer buffer = ByteBuffer.wrap(element);
            if (buffer.remaining() >= Short.BYTES) {
                final int keyGroup = Short.toUnsignedInt(buffer.getShort());
                if (keyGroups.contains(keyGroup)) {
                    final byte[] bytes = new byte[buffer.remaining()];
                    buffer.get(bytes);
                    add(keyGroup, bytes);
                }
            }
        }
        return marked;
    }

    private void add(int keyGroup, byte[] bytes) {
        restored.computeIfAbsent(keyGroup, group -> new ArrayList<>()).add(bytes);
    }

    /** Gives the library what was restored, before the first batch. Returns whether there was anything. */
    boolean restore(long stage) {
        final boolean any = !restored.isEmpty();
        restored.forEach((keyGroup, parts) -> parts.forEach(bytes -> Native.stageRestorePending(stage, keyGroup, bytes)));
        restored.clear();
        return any;
    }

    /** Writes what misses siblings now. */
    void snapshot(long stage, StateSnapshotContext context, RawKeyedState raw) throws Exception {
        final int[] keyGroups = Native.stagePendingKeyGroups(stage);
        switch (raw) {
            case OURS -> {
                forget();
                if (keyGroups.length > 0) {
                    writeRaw(stage, keyGroups, context.getRawKeyedOperatorStateOutput());
                }
            }
            case TIMERS -> {
                final List<byte[]> elements = new ArrayList<>();
                elements.add(MARK);
                for (int keyGroup : keyGroups) {
                    final byte[] bytes = Native.stageSnapshotPending(stage, keyGroup);
                    // a key group is below 2^15
                    elements.add(ByteBuffer.allocate(Short.BYTES + bytes.length).putShort((short) keyGroup).put(bytes).array());
                }
                operatorState.getUnionListState(BESIDE_TIMERS).update(elements);
            }
        }
    }

    /** Removes what an earlier snapshot of this task left in the operator state. */
    private void forget() throws Exception {
        if (operatorState.getRegisteredStateNames().contains(BESIDE_TIMERS.getName())) {
            final ListState<byte[]> state = operatorState.getUnionListState(BESIDE_TIMERS);
            state.clear();
        }
    }

    private static void writeRaw(long stage, int[] keyGroups, KeyedStateCheckpointOutputStream stream)
            throws IOException {
        final DataOutputStream out = new DataOutputStream(stream);
        for (int keyGroup : keyGroups) {
            final byte[] bytes = Native.stageSnapshotPending(stage, keyGroup);
            stream.startNewKeyGroup(keyGroup);
            out.writeInt(bytes.length);
            out.write(bytes);
            out.flush();
        }
    }

    /** Whose the raw keyed state of a snapshot is. */
    enum RawKeyedState {
        OURS,
        TIMERS
    }
}
