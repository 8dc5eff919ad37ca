package org.apache.flink.streamfusion.runtime;

import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.runtime.state.CompositeKeySerializationUtils;
import org.apache.flink.runtime.state.KeyValueStateIterator;
import org.apache.flink.runtime.state.SerializedCompositeKeyBuilder;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;

import java.io.IOException;

/**
 * The entries of a native snapshot in the order of key groups and {@link ReservedStates}. One key group is encoded at a time, by the
 * library, which keeps it: only one entry is on the heap.
 */
final class NativeStateIterator implements KeyValueStateIterator {

    private final long snapshot;
    private final int announcedChunks;
    private final int[] keyGroups;
    private final SerializedCompositeKeyBuilder<Integer> keys;
    /** Position of the current key group. */
    private int position;
    /** How many chunks the current key group has. */
    private int chunks;
    private int state;

    /** The entries are of the states that were announced in front of them: one for headers, and one for each chunk. */
    NativeStateIterator(long snapshot, int keyGroupCount, int announcedChunks) {
        this.snapshot = snapshot;
        this.announcedChunks = announcedChunks;
        this.keyGroups = Native.snapshotKeyGroups(snapshot);
        this.keys =
                new SerializedCompositeKeyBuilder<>(
                        KeyGroupSerializer.INSTANCE,
                        CompositeKeySerializationUtils.computeRequiredBytesInKeyGroupPrefix(keyGroupCount),
                        16);
        encode();
    }

    private void encode() {
        if (isValid()) {
            chunks = Native.snapshotEncode(snapshot, keyGroup());
            state = 0;
            // an entry of an unknown state would be written all the same, and found when it is too late
            if (chunks > announcedChunks) {
                throw new NativeException(
                        String.format(
                                "The native state of key group %d has %d chunks where at most %d were announced",
                                keyGroup(), chunks, announcedChunks));
            }
        }
    }

    @Override
    public boolean isValid() {
        return position < keyGroups.length;
    }

    @Override
    public void next() {
        state++;
        if (state > chunks) {
            position++;
            encode();
        }
    }

    @Override
    public int keyGroup() {
        return keyGroups[position];
    }

    /** The bytes are the caller's, who marks them. */
    @Override
    public byte[] key() {
        keys.setKeyAndKeyGroup(keyGroup(), keyGroup());
        return keys.buildCompositeKeyNamespace(VoidNamespace.INSTANCE, VoidNamespaceSerializer.INSTANCE);
    }

    @Override
    public byte[] value() {
        final byte[] part = Native.snapshotPart(snapshot, keyGroup(), state);
        final DataOutputSerializer value = new DataOutputSerializer(Integer.BYTES + part.length);
        try {
            BytePrimitiveArraySerializer.INSTANCE.serialize(part, value);
        } catch (IOException e) {
            throw new IllegalStateException("Writing into memory failed", e);
        }
        return value.getSharedBuffer();
    }

    @Override
    public int kvStateId() {
        return state;
    }

    /** A state has one entry per key group. */
    @Override
    public boolean isNewKeyValueState() {
        return true;
    }

    @Override
    public boolean isNewKeyGroup() {
        return state == 0;
    }

    /** What was encoded last is freed with the snapshot. */
    @Override
    public void close() {}
}
