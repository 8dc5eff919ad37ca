package org.apache.flink.streamfusion.nexmark;

import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.core.io.SimpleVersionedSerializer;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * Every {@code stride}-th event, from one on.
 *
 * @param first its first event, below the stride
 * @param stride as many splits there are
 * @param next the next event to emit
 */
record EventSplit(int first, int stride, long next) implements SourceSplit {

    /** All events, cut so that all splits go through event time side by side. */
    static List<EventSplit> all(int count) {
        List<EventSplit> splits = new ArrayList<>();
        for (int first = 0; first < count; first++) {
            splits.add(new EventSplit(first, count, first));
        }
        return splits;
    }

    @Override
    public String splitId() {
        return first + " of " + stride;
    }

    /** Its three numbers, one after the other. */
    static final class Serializer implements SimpleVersionedSerializer<EventSplit> {
        private static final int BYTES = 2 * Integer.BYTES + Long.BYTES;

        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(EventSplit split) {
            ByteBuffer bytes = ByteBuffer.allocate(BYTES);
            write(split, bytes);
            return bytes.array();
        }

        @Override
        public EventSplit deserialize(int version, byte[] bytes) throws IOException {
            check(version, getVersion());
            return read(ByteBuffer.wrap(bytes));
        }

        private static void write(EventSplit split, ByteBuffer bytes) {
            bytes.putInt(split.first()).putInt(split.stride()).putLong(split.next());
        }

        private static EventSplit read(ByteBuffer bytes) {
            return new EventSplit(bytes.getInt(), bytes.getInt(), bytes.getLong());
        }
    }

    /** Of the splits that no reader has. */
    static final class ListSerializer implements SimpleVersionedSerializer<List<EventSplit>> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(List<EventSplit> splits) {
            ByteBuffer bytes = ByteBuffer.allocate(splits.size() * Serializer.BYTES);
            splits.forEach(split -> Serializer.write(split, bytes));
            return bytes.array();
        }

        @Override
        public List<EventSplit> deserialize(int version, byte[] serialized) throws IOException {
            check(version, getVersion());
            ByteBuffer bytes = ByteBuffer.wrap(serialized);
            List<EventSplit> splits = new ArrayList<>();
            while (bytes.hasRemaining()) {
                splits.add(Serializer.read(bytes));
            }
            return splits;
        }
    }

    private static void check(int found, int known) throws IOException {
        if (found != known) {
            throw new IOException("Splits of version " + found + " cannot be read, only of " + known);
        }
    }
}
