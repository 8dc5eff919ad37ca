package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.dag.Transformation;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.runtime.testutils.MiniClusterResourceConfiguration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.transformations.OneInputTransformation;
import org.apache.flink.streaming.api.transformations.PartitionTransformation;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.runtime.typeutils.RowDataSerializer;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.test.junit5.MiniClusterExtension;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Stages in real tasks, with a real network between them. */
class NativeExchangeTest extends NativeTestBase {

    private static final long ROWS = 20_000;
    private static final RowType TYPE = RowType.of(DataTypes.BIGINT().getLogicalType());

    @RegisterExtension
    private static final MiniClusterExtension CLUSTER =
            new MiniClusterExtension(
                    new MiniClusterResourceConfiguration.Builder()
                            .setNumberTaskManagers(2)
                            .setNumberSlotsPerTaskManager(3)
                            .build());

    @Test
    void everyRowArrivesOnceWhereFlinkSendsItsKey() throws Exception {
        final Configuration configuration = new Configuration();
        // barriers in between must find their place, and batches must not be taken for in-flight data
        configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofMillis(10));
        configuration.set(CheckpointingOptions.ENABLE_UNALIGNED, true);
        final StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setMaxParallelism(200);

        final DataStream<RowData> source =
                env.fromSequence(0, ROWS - 1)
                        .map(n -> (RowData) GenericRowData.of(n), InternalTypeInfo.of(TYPE))
                        .setParallelism(2);
        final StageConfig first =
                StageConfig.builder("First", splitting(TYPE, 0))
                        .rowInput(TYPE, readsAll(TYPE))
                        .exchange()
                        .maxBatchRows(100)
                        .latencyMs(5)
                        .build();
        final StageConfig second = StageConfig.builder("Second", passing(TYPE)).rowOutput(TYPE).build();
        final Transformation<Object> batches =
                stage(source.getTransformation(), first, NativeBatchTypeInfo.INSTANCE, 2);
        final Transformation<Object> exchange = cast(new PartitionTransformation<>(
                        NativeExchangeTest.<NativeBatch>cast(batches), NativeKeyGroupPartitioner.ofBatches(128)));
        final Transformation<Object> rows = stage(exchange, second, InternalTypeInfo.of(TYPE), 3);
        final List<String> arrived =
                new DataStream<>(env, NativeExchangeTest.<RowData>cast(rows))
                        .map(new SubtaskAndValue(), Types.STRING)
                        .setParallelism(3)
                        .executeAndCollect((int) ROWS * 2);

        final RowDataSerializer keys = new RowDataSerializer(TYPE);
        final Map<String, Integer> expected = new HashMap<>();
        for (long n = 0; n < ROWS; n++) {
            final int subtask =
                    KeyGroupRangeAssignment.assignKeyToParallelOperator(
                            keys.toBinaryRow(GenericRowData.of(n)), 200, 3);
            expected.put(subtask + " " + n, 1);
        }
        assertThat(arrived).hasSize((int) ROWS);
        assertThat(expected.keySet()).containsAll(arrived);
        assertThat(arrived).doesNotHaveDuplicates();
    }

    private static <I> Transformation<Object> stage(
            Transformation<I> input, StageConfig config, TypeInformation<?> type, int parallelism) {
        return new OneInputTransformation<>(
                NativeExchangeTest.<Object>cast(input),
                config.description,
                NativeStageOperatorFactory.of(config),
                NativeExchangeTest.<Object>cast(type),
                parallelism);
    }

    @SuppressWarnings("unchecked") // what an element is, the stage's configuration says
    private static <T> Transformation<T> cast(Transformation<?> transformation) {
        return (Transformation<T>) transformation;
    }

    @SuppressWarnings("unchecked")
    private static <T> TypeInformation<T> cast(TypeInformation<?> type) {
        return (TypeInformation<T>) type;
    }

    /** Prints where a row arrived. */
    private static final class SubtaskAndValue
            extends RichMapFunction<RowData, String> {
        private static final long serialVersionUID = 1L;

        @Override
        public String map(RowData row) {
            return getRuntimeContext().getTaskInfo().getIndexOfThisSubtask() + " " + row.getLong(0);
        }
    }
}
