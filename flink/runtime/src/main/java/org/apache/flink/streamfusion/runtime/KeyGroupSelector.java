package org.apache.flink.streamfusion.runtime;

import org.apache.flink.api.java.functions.KeySelector;

/**
 * Makes Flink give an operator a keyed state backend. Nobody asks it for a key: a batch has rows of many, and its operator sets
 * no key context for records.
 */
public final class KeyGroupSelector implements KeySelector<Object, Integer> {

    private static final long serialVersionUID = 1L;

    public static final KeyGroupSelector INSTANCE = new KeyGroupSelector();

    private KeyGroupSelector() {}

    @Override
    public Integer getKey(Object value) {
        throw new IllegalStateException("The elements of a native stage have no single key: " + value);
    }
}
