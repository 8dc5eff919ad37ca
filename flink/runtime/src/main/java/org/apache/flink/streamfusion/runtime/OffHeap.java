package org.apache.flink.streamfusion.runtime;

import org.apache.flink.core.memory.MemorySegment;
import org.apache.flink.core.memory.MemoryUtils;
import org.apache.flink.table.data.binary.BinarySegmentUtils;

import sun.misc.Unsafe;

/**
 * Memory that Rust owns, read and written by address. Nothing here is checked: whoever calls knows from the boundary's
 * tables that the bytes are there. All numbers are little-endian, as on every platform there is a library for.
 */
final class OffHeap {

    static final Unsafe UNSAFE = MemoryUtils.UNSAFE;

    private OffHeap() {}

    static void write(byte[] source, int offset, int length, long target) {
        UNSAFE.copyMemory(source, Unsafe.ARRAY_BYTE_BASE_OFFSET + (long) offset, null, target, length);
    }

    /** Writes bytes that may be spread over segments of one size. */
    static void write(MemorySegment[] segments, int offset, int length, long target) {
        final MemorySegment first = segments[0];
        if (offset + (long) length > first.size()) {
            write(BinarySegmentUtils.getBytes(segments, offset, length), 0, length, target);
        } else if (first.isOffHeap()) {
            UNSAFE.copyMemory(first.getAddress() + offset, target, length);
        } else {
            write(first.getArray(), offset, length, target);
        }
    }

    static void readInto(long source, byte[] target, int offset, int length) {
        read(source, target, Unsafe.ARRAY_BYTE_BASE_OFFSET + (long) offset, length);
    }

    static byte[] bytes(long source, int length) {
        final byte[] target = new byte[length];
        read(source, target, Unsafe.ARRAY_BYTE_BASE_OFFSET, length);
        return target;
    }

    static short[] shorts(long source, int length) {
        final short[] target = new short[length];
        read(source, target, Unsafe.ARRAY_SHORT_BASE_OFFSET, (long) length * Short.BYTES);
        return target;
    }

    static int[] ints(long source, int length) {
        final int[] target = new int[length];
        read(source, target, Unsafe.ARRAY_INT_BASE_OFFSET, (long) length * Integer.BYTES);
        return target;
    }

    static long[] longs(long source, int length) {
        final long[] target = new long[length];
        read(source, target, Unsafe.ARRAY_LONG_BASE_OFFSET, (long) length * Long.BYTES);
        return target;
    }

    static float[] floats(long source, int length) {
        final float[] target = new float[length];
        read(source, target, Unsafe.ARRAY_FLOAT_BASE_OFFSET, (long) length * Float.BYTES);
        return target;
    }

    static double[] doubles(long source, int length) {
        final double[] target = new double[length];
        read(source, target, Unsafe.ARRAY_DOUBLE_BASE_OFFSET, (long) length * Double.BYTES);
        return target;
    }

    private static void read(long source, Object target, long targetOffset, long bytes) {
        if (bytes > 0) { // an empty column may have no memory at all
            UNSAFE.copyMemory(null, source, target, targetOffset, bytes);
        }
    }
}
