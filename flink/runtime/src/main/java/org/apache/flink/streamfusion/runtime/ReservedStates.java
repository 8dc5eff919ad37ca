package org.apache.flink.streamfusion.runtime;

import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;
import org.apache.flink.runtime.state.KeyedStateBackend;
import org.apache.flink.runtime.state.RegisteredKeyValueStateBackendMetaInfo;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.runtime.state.metainfo.StateMetaInfoSnapshot;

import java.util.ArrayList;
import java.util.List;

/**
 * The reserved keyed states in which native state lies in Flink's snapshots: state 0 has the header of each key group, state n + 1
 * its chunk n. All are value states of bytes, under the number of the key group as the key.
 */
final class ReservedStates {

    private ReservedStates() {}

    /** What a snapshot says about the header state and {@code chunks} chunk states; the position is the number of the state. */
    static List<StateMetaInfoSnapshot> metaInfos(int chunks) {
        final List<StateMetaInfoSnapshot> metaInfos = new ArrayList<>();
        for (int state = 0; state <= chunks; state++) {
            metaInfos.add(
                    new RegisteredKeyValueStateBackendMetaInfo<VoidNamespace, byte[]>(
                                    StateDescriptor.Type.VALUE,
                                    Native.stateName(state),
                                    VoidNamespaceSerializer.INSTANCE,
                                    BytePrimitiveArraySerializer.INSTANCE)
                            .snapshot());
        }
        return metaInfos;
    }

    /** Takes the value of a state under the current key out of the backend; null if there is none. */
    static byte[] take(KeyedStateBackend<Integer> backend, int state) throws Exception {
        final ValueState<byte[]> values =
                backend.getPartitionedState(
                        VoidNamespace.INSTANCE,
                        VoidNamespaceSerializer.INSTANCE,
                        new ValueStateDescriptor<>(Native.stateName(state), BytePrimitiveArraySerializer.INSTANCE));
        final byte[] value = values.value();
        if (value != null) {
            values.clear();
        }
        return value;
    }
}
