package org.apache.flink.streamfusion.runtime;

import org.apache.flink.runtime.io.network.api.writer.SubtaskStateMapper;
import org.apache.flink.runtime.plugable.SerializationDelegate;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.runtime.partitioner.ConfigurableStreamPartitioner;
import org.apache.flink.streaming.runtime.partitioner.StreamPartitioner;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

import java.util.Objects;

/**
 * The keyed exchange between native stages: a batch goes to the subtask that owns its key group.
 *
 * <p>All rows of a whole batch belong to one subtask, but not to one key group. After a rescaling they may belong to several, so
 * it must not be part of an unaligned checkpoint. A fragment has rows of one key group alone: Flink may store it on its way
 * and give it to whoever owns its key group afterwards.
 */
public final class NativeKeyGroupPartitioner extends StreamPartitioner<NativeBatch>
        implements ConfigurableStreamPartitioner {

    private static final long serialVersionUID = 1L;

    /** What travels. */
    private enum Form {
        BATCHES,
        FRAGMENTS
    }

    private final Form form;
    private int maxParallelism;

    private NativeKeyGroupPartitioner(Form form, int maxParallelism) {
        this.form = form;
        configure(maxParallelism);
        if (form == Form.BATCHES) {
            disableUnalignedCheckpoints();
        }
    }

    /** For whole batches, whose barriers are always aligned. */
    public static NativeKeyGroupPartitioner ofBatches(int maxParallelism) {
        return new NativeKeyGroupPartitioner(Form.BATCHES, maxParallelism);
    }

    /** For fragments, which an unaligned checkpoint may store. */
    public static NativeKeyGroupPartitioner ofFragments(int maxParallelism) {
        return new NativeKeyGroupPartitioner(Form.FRAGMENTS, maxParallelism);
    }

    @Override
    public void configure(int maxParallelism) {
        KeyGroupRangeAssignment.checkParallelismPreconditions(maxParallelism);
        this.maxParallelism = maxParallelism;
    }

    @Override
    public int selectChannel(SerializationDelegate<StreamRecord<NativeBatch>> record) {
        final NativeBatch batch = record.getInstance().getValue();
        final int keyGroup = batch.keyGroup();
        if (keyGroup < 0 || keyGroup >= maxParallelism) {
            throw new IllegalStateException(
                    "A keyed exchange with " + maxParallelism + " key groups got " + batch);
        }
        return KeyGroupRangeAssignment.computeOperatorIndexForKeyGroup(maxParallelism, numberOfChannels, keyGroup);
    }

    @Override
    public SubtaskStateMapper getDownstreamSubtaskStateMapper() {
        return SubtaskStateMapper.RANGE;
    }

    @Override
    public StreamPartitioner<NativeBatch> copy() {
        final NativeKeyGroupPartitioner copy = new NativeKeyGroupPartitioner(form, maxParallelism);
        copy.numberOfChannels = numberOfChannels;
        return copy;
    }

    @Override
    public boolean isPointwise() {
        return false;
    }

    @Override
    public boolean equals(Object other) {
        return super.equals(other)
                && form == ((NativeKeyGroupPartitioner) other).form
                && maxParallelism == ((NativeKeyGroupPartitioner) other).maxParallelism;
    }

    @Override
    public int hashCode() {
        return Objects.hash(super.hashCode(), form, maxParallelism);
    }

    @Override
    public String toString() {
        return "HASH";
    }
}
