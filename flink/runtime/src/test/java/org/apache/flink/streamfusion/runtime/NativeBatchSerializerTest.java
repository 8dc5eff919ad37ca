package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshotSerializationUtil;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.util.InstantiationUtil;

import org.junit.jupiter.api.Test;

import java.io.EOFException;
import java.io.IOException;

class NativeBatchSerializerTest {

    private final TypeSerializer<NativeBatch> serializer = NativeBatchTypeInfo.INSTANCE.createSerializer(null);

    @Test
    void encodedBatchesSurviveTheNetwork() throws IOException {
        final DataOutputSerializer out = new DataOutputSerializer(8);
        serializer.serialize(NativeBatch.ofBytes(new byte[] {1, 2, 3, 9}, 3, 7, 127), out);
        serializer.serialize(NativeBatch.ofBytes(new byte[0], 0, 0, NativeBatch.NO_KEY_GROUP), out);

        final DataInputDeserializer in = new DataInputDeserializer(out.getCopyOfBuffer());
        final NativeBatch first = serializer.deserialize(in);
        assertThat(first.isEncoded()).isTrue();
        assertThat(first.encoded()).containsExactly(1, 2, 3);
        assertThat(first.rows()).isEqualTo(7);
        assertThat(first.keyGroup()).isEqualTo(127);
        final NativeBatch second = serializer.deserialize(first, in);
        assertThat(second.encoded()).isEmpty();
        assertThat(second.rows()).isZero();
        assertThat(second.keyGroup()).isEqualTo(NativeBatch.NO_KEY_GROUP);
        assertThat(in.available()).isZero();
    }

    @Test
    void serializedBatchesAreCopiedByteForByte() throws IOException {
        final DataOutputSerializer out = new DataOutputSerializer(8);
        serializer.serialize(NativeBatch.ofBytes(new byte[] {1, 2, 3, 9}, 3, 7, 127), out);
        final DataOutputSerializer copy = new DataOutputSerializer(8);
        serializer.copy(new DataInputDeserializer(out.getCopyOfBuffer()), copy);
        assertThat(copy.getCopyOfBuffer()).isEqualTo(out.getCopyOfBuffer());
    }

    @Test
    void copiesAreTheSameObjectBecauseTheyAreBorrowed() {
        final NativeBatch batch = NativeBatch.ofHandle(42, 1, NativeBatch.NO_KEY_GROUP);
        assertThat(serializer.copy(batch)).isSameAs(batch);
        assertThat(serializer.copy(batch, serializer.createInstance())).isSameAs(batch);
    }

    @Test
    void headersThatNoBatchHasAreRefused() throws IOException {
        refused(-1, 0, 0);
        refused(1, -2, 0);
        refused(1, 1 << 15, 0);
        refused(1, 0, -1);
        refused(1, 0, NativeBatchSerializer.MAX_ENCODED_BYTES + 1);
    }

    private void refused(int rows, int keyGroup, int length) throws IOException {
        final byte[] bytes = header(rows, keyGroup, length);
        assertThatThrownBy(() -> serializer.deserialize(new DataInputDeserializer(bytes)))
                .isInstanceOf(IOException.class)
                .hasMessageContaining("Not a batch");
    }

    @Test
    void truncatedBatchesAreRefused() throws IOException {
        final byte[] bytes = header(1, 0, 100);
        assertThatThrownBy(() -> serializer.deserialize(new DataInputDeserializer(bytes)))
                .isInstanceOf(EOFException.class);
    }

    private static byte[] header(int rows, int keyGroup, int length) throws IOException {
        final DataOutputSerializer out = new DataOutputSerializer(12);
        out.writeInt(rows);
        out.writeInt(keyGroup);
        out.writeInt(length);
        return out.getCopyOfBuffer();
    }

    @Test
    void theSnapshotRestoresAnEqualSerializer() throws IOException {
        final DataOutputSerializer out = new DataOutputSerializer(64);
        TypeSerializerSnapshotSerializationUtil.writeSerializerSnapshot(out, serializer.snapshotConfiguration());
        final TypeSerializerSnapshot<NativeBatch> snapshot =
                TypeSerializerSnapshotSerializationUtil.readSerializerSnapshot(
                        new DataInputDeserializer(out.getCopyOfBuffer()), getClass().getClassLoader());
        assertThat(snapshot.restoreSerializer()).isEqualTo(serializer);
        assertThat(serializer.snapshotConfiguration().resolveSchemaCompatibility(snapshot).isCompatibleAsIs()).isTrue();
    }

    @Test
    void theTypeSurvivesJavaSerialization() throws Exception {
        assertThat(InstantiationUtil.clone(NativeBatchTypeInfo.INSTANCE)).isEqualTo(NativeBatchTypeInfo.INSTANCE);
    }
}
