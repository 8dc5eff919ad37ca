package org.apache.flink.streamfusion.runtime;

import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.streaming.api.graph.StreamConfig;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.typeutils.RowDataSerializer;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.util.InstantiationUtil;

import java.io.IOException;
import java.io.UncheckedIOException;

/**
 * The serializer of an operator's chained input that copies no row.
 *
 * <p>Between chained operators Flink copies every row with the serializer of the input behind, unless {@code pipeline.object-reuse}
 * is set, so that no operator changes or keeps what another one has. An entry does neither: it writes the fields into columns before it
 * returns. What is copied for it is copied for nothing.
 */
final class BorrowedRowSerializer extends RowDataSerializer {

    private static final long serialVersionUID = 1L;

    /** Where {@link StreamConfig} keeps its inputs. */
    private static final String INPUTS = "inputs";

    private final RowType type;

    private BorrowedRowSerializer(RowType type) {
        super(type);
        this.type = type;
    }

    /**
     * Lets an operator take its rows as they are if it is chained to the one in front. To be called while the operator is created,
     * before the chain asks for the serializer.
     */
    static void useIfChained(StreamConfig config, RowType type) {
        if (config.isChainStart()) {
            return;
        }
        final StreamConfig.InputConfig[] inputs = {new StreamConfig.NetworkInputConfig(new BorrowedRowSerializer(type), 0)};
        try {
            InstantiationUtil.writeObjectToConfig(inputs, config.getConfiguration(), INPUTS);
        } catch (IOException e) {
            throw new UncheckedIOException("The serializer of a chained input cannot be written: " + type, e);
        }
    }

    /** The row itself. A row of another width fails as it does when it is copied. */
    @Override
    public RowData copy(RowData from) {
        if (from.getArity() != getArity()) {
            return super.copy(from);
        }
        return from;
    }

    @Override
    public TypeSerializer<RowData> duplicate() {
        return new BorrowedRowSerializer(type);
    }
}
