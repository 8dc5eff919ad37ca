package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.graph.StreamConfig;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.typeutils.RowDataSerializer;
import org.apache.flink.table.types.logical.RowType;

import org.junit.jupiter.api.Test;

class BorrowedRowSerializerTest {

    private static final RowType TYPE =
            RowType.of(DataTypes.BIGINT().getLogicalType(), DataTypes.STRING().getLogicalType());

    private static final RowData ROW = GenericRowData.of(1L, null);

    @Test
    void aChainedOperatorTakesRowsAsTheyAre() {
        final TypeSerializer<RowData> serializer = serializerAfter(false);
        assertThat(serializer.copy(ROW)).isSameAs(ROW);
        assertThat(serializer.duplicate().copy(ROW)).isSameAs(ROW);
    }

    @Test
    void theFirstOperatorOfAChainKeepsTheSerializerOfTheNetwork() {
        assertThat(serializerAfter(true)).isExactlyInstanceOf(RowDataSerializer.class);
    }

    @Test
    void aRowOfAnotherWidthFailsAsInFlink() {
        final RowData narrow = GenericRowData.of(1L);
        assertThatThrownBy(() -> serializerAfter(false).copy(narrow))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("Row arity: 1, but serializer arity: 2");
    }

    private static TypeSerializer<RowData> serializerAfter(boolean chainStart) {
        final StreamConfig config = new StreamConfig(new Configuration());
        config.setupNetworkInputs(new RowDataSerializer(TYPE));
        if (chainStart) {
            config.setChainStart();
        }
        config.serializeAllConfigs();
        BorrowedRowSerializer.useIfChained(config, TYPE);
        return config.getTypeSerializerIn(0, BorrowedRowSerializerTest.class.getClassLoader());
    }
}
