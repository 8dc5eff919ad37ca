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
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * Fragments that miss siblings, between the library and snapshots.
 *
 * <p>They are raw keyed state: per key group the length of what the library wrote, as an int, and its bytes. Where a stage has two
 * inputs, the sign bit of the length says that the same of the second input follows.
 *
 * <p>RocksDB with timers on the heap writes those timers to the raw keyed state of an ordinary checkpoint, and an operator that
 * wants to write there as well fails. In such a checkpoint they are elements of an operator state that goes to every subtask, each
 * with its key group in front as a short, whose sign bit is set for the second input; one element is only a mark, so that the raw
 * keyed state of such a checkpoint is not taken for fragments.
 */
final class PendingFragments {

    /** Where fragments are that are not raw keyed state. */
    private static final ListStateDescriptor<byte[]> BESIDE_TIMERS =
            new ListStateDescriptor<>("__streamfusion_pending_fragments_v3", BytePrimitiveArraySerializer.INSTANCE);

    private static final byte[] MARK = new byte[0];

    private static final int SECOND_FOLLOWS = Integer.MIN_VALUE;
    private static final int OF_SECOND = 1 << 15;

    private final StageConfig config;

    /** Of a snapshot by key group, until the stage is there to take them. */
    private final SortedMap<Integer, List<Part>> restored = new TreeMap<>();

    /** What the library wrote for an input and a key group. */
    private record Part(int input, byte[] bytes) {}

    private final OperatorStateStore operatorState;

    private PendingFragments(StageConfig config, OperatorStateStore operatorState) {
        this.config = config;
        this.operatorState = operatorState;
    }

    /** Reads what a snapshot has for the key groups of this subtask. */
    static PendingFragments of(StageConfig config, StateInitializationContext context, KeyGroupRange keyGroups)
            throws Exception {
        final PendingFragments pending = new PendingFragments(config, context.getOperatorStateStore());
        if (!pending.readBesideTimers(keyGroups)) {
            for (KeyGroupStatePartitionStreamProvider provider : context.getRawKeyedStateInputs()) {
                pending.read(provider);
            }
        }
        return pending;
    }

    private void read(KeyGroupStatePartitionStreamProvider provider) throws IOException {
        final int keyGroup = provider.getKeyGroupId();
        // the stream is shared by all key groups of a handle: nothing may be read ahead
        final DataInputStream in = new DataInputStream(provider.getStream());
        try {
            final int first = in.readInt();
            if ((first & SECOND_FOLLOWS) == 0) {
                add(keyGroup, 0, read(in, first));
                return;
            }
            final byte[] ofFirst = read(in, first & ~SECOND_FOLLOWS);
            if (ofFirst.length > 0) {
                add(keyGroup, 0, ofFirst);
            }
            add(keyGroup, 1, read(in, in.readInt()));
        } catch (EOFException e) {
            throw new NativeException(
                    config.description
                            + ": the fragments in the checkpoint of key group "
                            + keyGroup
                            + " end too early; the snapshot is damaged",
                    e);
        }
    }

    private static byte[] read(DataInputStream in, int length) throws IOException {
        // what is not there is not allocated either
        final byte[] bytes = length < 0 ? new byte[0] : in.readNBytes(length);
        if (bytes.length != length) {
            throw new EOFException();
        }
        return bytes;
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
                final int number = Short.toUnsignedInt(buffer.getShort());
                final int keyGroup = number & ~OF_SECOND;
                if (keyGroups.contains(keyGroup)) {
                    final byte[] bytes = new byte[buffer.remaining()];
                    buffer.get(bytes);
                    add(keyGroup, (number & OF_SECOND) == 0 ? 0 : 1, bytes);
                }
            }
        }
        return marked;
    }

    private void add(int keyGroup, int input, byte[] bytes) {
        if (input >= config.inputCount() || !config.input(input).fragments()) {
            throw new NativeException(
                    config.description
                            + ": the checkpoint has fragments of an input that the operator does not read them from; restore the job"
                            + " with the statement that it had, or from a savepoint, which has none");
        }
        restored.computeIfAbsent(keyGroup, group -> new ArrayList<>()).add(new Part(input, bytes));
    }

    /** Gives the library what was restored, before the first batch. Returns whether there was anything. */
    boolean restore(long stage) {
        final boolean any = !restored.isEmpty();
        restored.forEach(
                (keyGroup, parts) ->
                        parts.forEach(part -> Native.stageRestorePending(stage, part.input(), keyGroup, part.bytes())));
        restored.clear();
        return any;
    }

    /** Writes what misses siblings now. */
    void snapshot(long stage, StateSnapshotContext context, RawKeyedState raw) throws Exception {
        final SortedMap<Integer, List<Part>> pending = pending(stage);
        switch (raw) {
            case OURS -> {
                forget();
                if (!pending.isEmpty()) {
                    writeRaw(pending, context.getRawKeyedOperatorStateOutput());
                }
            }
            case TIMERS -> {
                final List<byte[]> elements = new ArrayList<>();
                elements.add(MARK);
                pending.forEach((keyGroup, parts) -> parts.forEach(part -> elements.add(element(keyGroup, part))));
                operatorState.getUnionListState(BESIDE_TIMERS).update(elements);
            }
        }
    }

    private SortedMap<Integer, List<Part>> pending(long stage) {
        final SortedMap<Integer, List<Part>> pending = new TreeMap<>();
        for (int input = 0; input < config.inputCount(); input++) {
            if (config.input(input).fragments()) {
                for (int keyGroup : Native.stagePendingKeyGroups(stage, input)) {
                    pending.computeIfAbsent(keyGroup, group -> new ArrayList<>())
                            .add(new Part(input, Native.stageSnapshotPending(stage, input, keyGroup)));
                }
            }
        }
        return pending;
    }

    private static byte[] element(int keyGroup, Part part) {
        // a key group is below 2^15
        final int number = part.input() == 0 ? keyGroup : keyGroup | OF_SECOND;
        return ByteBuffer.allocate(Short.BYTES + part.bytes().length).putShort((short) number).put(part.bytes()).array();
    }

    /** Removes what an earlier snapshot of this task left in the operator state. */
    private void forget() throws Exception {
        if (operatorState.getRegisteredStateNames().contains(BESIDE_TIMERS.getName())) {
            final ListState<byte[]> state = operatorState.getUnionListState(BESIDE_TIMERS);
            state.clear();
        }
    }

    private static void writeRaw(SortedMap<Integer, List<Part>> pending, KeyedStateCheckpointOutputStream stream)
            throws IOException {
        final DataOutputStream out = new DataOutputStream(stream);
        for (Map.Entry<Integer, List<Part>> group : pending.entrySet()) {
            stream.startNewKeyGroup(group.getKey());
            final List<Part> parts = group.getValue();
            final Part last = parts.get(parts.size() - 1);
            final byte[] first = parts.get(0).input() == 0 ? parts.get(0).bytes() : new byte[0];
            out.writeInt(last.input() == 0 ? first.length : first.length | SECOND_FOLLOWS);
            out.write(first);
            if (last.input() > 0) {
                out.writeInt(last.bytes().length);
                out.write(last.bytes());
            }
            out.flush();
        }
    }

    /** Whose the raw keyed state of a snapshot is. */
    enum RawKeyedState {
        OURS,
        TIMERS
    }
}
