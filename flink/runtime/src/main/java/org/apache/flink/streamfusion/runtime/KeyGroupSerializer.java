package org.apache.flink.streamfusion.runtime;

import org.apache.flink.api.common.typeutils.SimpleTypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

import java.io.IOException;

/**
 * Serializes the keys of native state in Flink's snapshots: not the keys of the query, which only the library knows, but the
 * number of the key group that an entry belongs to.
 *
 * <p>A class of its own, so that Flink refuses the snapshot of a stock operator for a native one and the other way round. Its
 * message has the text of this serializer, which therefore explains itself.
 */
public final class KeyGroupSerializer extends TypeSerializer<Integer> {

    private static final long serialVersionUID = 1L;

    public static final KeyGroupSerializer INSTANCE = new KeyGroupSerializer();

    private KeyGroupSerializer() {}

    @Override
    public boolean isImmutableType() {
        return true;
    }

    @Override
    public TypeSerializer<Integer> duplicate() {
        return this;
    }

    @Override
    public Integer createInstance() {
        return 0;
    }

    @Override
    public Integer copy(Integer from) {
        return from;
    }

    @Override
    public Integer copy(Integer from, Integer reuse) {
        return from;
    }

    @Override
    public int getLength() {
        return Integer.BYTES;
    }

    @Override
    public void serialize(Integer keyGroup, DataOutputView target) throws IOException {
        target.writeInt(keyGroup);
    }

    @Override
    public Integer deserialize(DataInputView source) throws IOException {
        return source.readInt();
    }

    @Override
    public Integer deserialize(Integer reuse, DataInputView source) throws IOException {
        return deserialize(source);
    }

    @Override
    public void copy(DataInputView source, DataOutputView target) throws IOException {
        target.writeInt(source.readInt());
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof KeyGroupSerializer;
    }

    @Override
    public int hashCode() {
        return KeyGroupSerializer.class.hashCode();
    }

    @Override
    public String toString() {
        return "StreamFusion's native state, which operators of stock Flink cannot read, nor native ones theirs: restore with"
                + " 'streamfusion.enabled' and the plan as they were when the snapshot was taken, or start without this state";
    }

    @Override
    public TypeSerializerSnapshot<Integer> snapshotConfiguration() {
        return new Snapshot();
    }

    /** Names the serializer in a snapshot. */
    @SuppressWarnings("WeakerAccess") // Flink creates it by name
    public static final class Snapshot extends SimpleTypeSerializerSnapshot<Integer> {

        public Snapshot() {
            super(() -> INSTANCE);
        }
    }
}
