package org.apache.flink.streamfusion.nexmark;

import org.apache.flink.core.memory.MemorySegment;
import org.apache.flink.core.memory.MemorySegmentFactory;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.binary.BinaryRowData;
import org.apache.flink.table.runtime.typeutils.RowDataSerializer;
import org.apache.flink.table.types.logical.RowType;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The events of a split as {@link BinaryRowData}, made beforehand and packed into a few large arrays.
 *
 * <p>Replayed, an event is a row that points into such an array: a job that reads it pays for reading, and nothing for making it. The
 * events of one table are kept in the JVM, for all jobs that read it, until those of other settings are asked for.
 *
 * <p>An array is a sequence of rows, each behind its length in 8 bytes. No row is cut.
 */
final class PreparedEvents {
    private static final int SEGMENT_BYTES = 16 << 20;
    private static final int LENGTH_BYTES = Long.BYTES;

    private static final Map<List<Integer>, PreparedEvents> KEPT = new HashMap<>();
    private static NexmarkSettings keptSettings;

    private final long first;
    private final int stride;
    private final List<MemorySegment> segments;

    private PreparedEvents(long first, int stride, List<MemorySegment> segments) {
        this.first = first;
        this.stride = stride;
        this.segments = segments;
    }

    /** The events of a split, made now unless they were before. */
    static synchronized PreparedEvents of(NexmarkSettings settings, int first, int stride) {
        if (!settings.equals(keptSettings)) {
            KEPT.clear();
            keptSettings = settings;
        }
        return KEPT.computeIfAbsent(List.of(first, stride), key -> make(settings, first, stride));
    }

    private static PreparedEvents make(NexmarkSettings settings, int first, int stride) {
        RowDataSerializer serializer = new RowDataSerializer((RowType) EventGenerator.TYPE.getLogicalType());
        EventGenerator generator = new EventGenerator(settings);
        List<MemorySegment> segments = new ArrayList<>();
        MemorySegment segment = null;
        int position = 0;
        for (long event = first; event < settings.events(); event += stride) {
            BinaryRowData row = serializer.toBinaryRow(generator.event(event));
            int size = row.getSizeInBytes();
            if (segment == null || segment.size() - position < LENGTH_BYTES + size) {
                segment = MemorySegmentFactory.allocateUnpooledSegment(SEGMENT_BYTES);
                segments.add(segment);
                position = 0;
            }
            segment.putLong(position, size);
            row.getSegments()[0].copyTo(row.getOffset(), segment, position + LENGTH_BYTES, size);
            position += LENGTH_BYTES + size;
        }
        return new PreparedEvents(first, stride, segments);
    }

    /** The rows from an event of this split on. */
    EventReader.Rows from(long event) {
        Cursor cursor = new Cursor();
        for (long passed = first; passed < event; passed += stride) {
            cursor.next(passed);
        }
        return cursor;
    }

    private final class Cursor implements EventReader.Rows {
        private final BinaryRowData row = new BinaryRowData(((RowType) EventGenerator.TYPE.getLogicalType()).getFieldCount());
        private int index = -1;
        private MemorySegment segment;
        private int position;

        @Override
        public RowData next(long event) {
            // Zeros fill up what is left of an array.
            if (segment == null || segment.size() - position < LENGTH_BYTES || segment.getLong(position) == 0) {
                index++;
                segment = segments.get(index);
                position = 0;
            }
            int size = (int) segment.getLong(position);
            row.pointTo(segment, position + LENGTH_BYTES, size);
            position += LENGTH_BYTES + size;
            return row;
        }
    }
}
