package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.io.network.api.writer.SubtaskStateMapper;
import org.apache.flink.runtime.plugable.SerializationDelegate;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.runtime.partitioner.KeyGroupStreamPartitioner;
import org.apache.flink.streaming.runtime.partitioner.StreamPartitioner;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.util.InstantiationUtil;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.util.List;

class NativeKeyGroupPartitionerTest {

    @ParameterizedTest
    @CsvSource({"1,128", "3,128", "4,128", "10,128", "128,128", "7,1000", "200,512", "3,3", "1,1", "500,32768"})
    void batchesGoWhereFlinkSendsRowsOfTheirKeyGroup(int channels, int maxParallelism) {
        final KeyGroupStreamPartitioner<String, String> stock = new KeyGroupStreamPartitioner<>(k -> k, maxParallelism);
        final NativeKeyGroupPartitioner ours = NativeKeyGroupPartitioner.ofBatches(128);
        ours.configure(maxParallelism);
        stock.setup(channels);
        ours.setup(channels);
        for (int i = 0; i < 1000; i++) {
            final String key = "key " + i;
            final int keyGroup = KeyGroupRangeAssignment.assignToKeyGroup(key, maxParallelism);
            assertThat(select(ours, keyGroup)).isEqualTo(select(stock, key));
        }
    }

    private static int select(NativeKeyGroupPartitioner partitioner, int keyGroup) {
        final SerializationDelegate<StreamRecord<NativeBatch>> delegate = new SerializationDelegate<>(null);
        delegate.setInstance(new StreamRecord<>(NativeBatch.ofHandle(1, 1, keyGroup)));
        return partitioner.selectChannel(delegate);
    }

    private static int select(StreamPartitioner<String> partitioner, String key) {
        final SerializationDelegate<StreamRecord<String>> delegate = new SerializationDelegate<>(null);
        delegate.setInstance(new StreamRecord<>(key));
        return partitioner.selectChannel(delegate);
    }

    @Test
    void batchesWithoutAKeyGroupOfTheEdgeAreRefused() {
        final NativeKeyGroupPartitioner partitioner = NativeKeyGroupPartitioner.ofBatches(128);
        partitioner.setup(4);
        assertThatThrownBy(() -> select(partitioner, NativeBatch.NO_KEY_GROUP)).isInstanceOf(IllegalStateException.class);
        assertThatThrownBy(() -> select(partitioner, 128)).isInstanceOf(IllegalStateException.class);
    }

    @Test
    void copiesKeepChannelsKeyGroupsAndAlignment() throws Exception {
        final NativeKeyGroupPartitioner partitioner = NativeKeyGroupPartitioner.ofBatches(512);
        partitioner.setup(7);
        for (StreamPartitioner<NativeBatch> copy : List.of(partitioner.copy(), InstantiationUtil.clone(partitioner))) {
            assertThat(copy).isEqualTo(partitioner).hasSameHashCodeAs(partitioner).isNotSameAs(partitioner);
            assertThat(copy.isSupportsUnalignedCheckpoint()).isFalse();
            assertThat(select((NativeKeyGroupPartitioner) copy, 511)).isEqualTo(6);
        }
    }

    @Test
    void anEdgeOfFragmentsAllowsUnalignedCheckpointsAlsoInItsCopies() throws Exception {
        final NativeKeyGroupPartitioner partitioner = NativeKeyGroupPartitioner.ofFragments(128);
        // as Flink filters stored records: it sets up, configures, copies, and sets up the copy
        partitioner.setup(3);
        partitioner.configure(512);
        for (StreamPartitioner<NativeBatch> copy : List.of(partitioner.copy(), InstantiationUtil.clone(partitioner))) {
            assertThat(copy).isEqualTo(partitioner).hasSameHashCodeAs(partitioner).isNotSameAs(partitioner);
            assertThat(copy.isSupportsUnalignedCheckpoint()).isTrue();
            assertThat(select((NativeKeyGroupPartitioner) copy, 511)).isEqualTo(2);
            copy.setup(4);
            assertThat(select((NativeKeyGroupPartitioner) copy, 511)).isEqualTo(3);
            assertThat(copy.getDownstreamSubtaskStateMapper()).isEqualTo(SubtaskStateMapper.RANGE);
        }
        assertThat(partitioner).isNotEqualTo(NativeKeyGroupPartitioner.ofBatches(512));
    }

    @Test
    void partitionersOfOtherEdgesAreDifferent() {
        final NativeKeyGroupPartitioner partitioner = NativeKeyGroupPartitioner.ofBatches(128);
        final NativeKeyGroupPartitioner otherKeyGroups = NativeKeyGroupPartitioner.ofBatches(256);
        final NativeKeyGroupPartitioner otherChannels = NativeKeyGroupPartitioner.ofBatches(128);
        otherChannels.setup(3);
        assertThat(partitioner).isNotEqualTo(otherKeyGroups).isNotEqualTo(otherChannels);
        assertThat(partitioner).isNotEqualTo(new KeyGroupStreamPartitioner<>(k -> k, 128)).isNotEqualTo(Types.INT);
    }

    @Test
    void theEdgeLooksLikeAHashExchange() {
        final NativeKeyGroupPartitioner partitioner = NativeKeyGroupPartitioner.ofBatches(128);
        assertThat(partitioner).hasToString("HASH");
        assertThat(partitioner.isPointwise()).isFalse();
        assertThat(partitioner.isBroadcast()).isFalse();
        assertThat(partitioner.isSupportsUnalignedCheckpoint()).isFalse();
        assertThat(partitioner.getDownstreamSubtaskStateMapper()).isEqualTo(SubtaskStateMapper.RANGE);
    }
}
