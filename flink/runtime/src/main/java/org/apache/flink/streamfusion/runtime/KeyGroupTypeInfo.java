package org.apache.flink.streamfusion.runtime;

import org.apache.flink.api.common.serialization.SerializerConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;

/** The key type of native state, as far as Flink knows it: see {@link KeyGroupSerializer}. */
public final class KeyGroupTypeInfo extends TypeInformation<Integer> {

    private static final long serialVersionUID = 1L;

    public static final KeyGroupTypeInfo INSTANCE = new KeyGroupTypeInfo();

    private KeyGroupTypeInfo() {}

    @Override
    public boolean isBasicType() {
        return false;
    }

    @Override
    public boolean isTupleType() {
        return false;
    }

    @Override
    public int getArity() {
        return 1;
    }

    @Override
    public int getTotalFields() {
        return 1;
    }

    @Override
    public Class<Integer> getTypeClass() {
        return Integer.class;
    }

    @Override
    public boolean isKeyType() {
        return true;
    }

    @Override
    public TypeSerializer<Integer> createSerializer(SerializerConfig config) {
        return KeyGroupSerializer.INSTANCE;
    }

    @Override
    public String toString() {
        return "KeyGroup";
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof KeyGroupTypeInfo;
    }

    @Override
    public int hashCode() {
        return KeyGroupTypeInfo.class.hashCode();
    }

    @Override
    public boolean canEqual(Object other) {
        return other instanceof KeyGroupTypeInfo;
    }
}
