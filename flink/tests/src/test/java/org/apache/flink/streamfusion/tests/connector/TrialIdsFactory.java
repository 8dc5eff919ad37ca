package org.apache.flink.streamfusion.tests.connector;

import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.ProviderContext;
import org.apache.flink.table.connector.source.DataStreamScanProvider;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.types.RowKind;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/**
 * A source of one BIGINT column: the ids from 0 to {@code rows - 1}, each once, from all of its subtasks, which go through a
 * {@link Trial}. With {@code upserts} there is a column in front, the key: the id's remainder by {@link #PARTITIONS}, under which each
 * id replaces the one before. Rows of the same remainder come in order, at any parallelism. Restored, at whatever parallelism, they go on where the snapshot was taken.
 */
public final class TrialIdsFactory implements DynamicTableSourceFactory {
    public static final String IDENTIFIER = "test-trial-ids";

    private static final ConfigOption<Long> ROWS = ConfigOptions.key("rows").longType().noDefaultValue();
    private static final ConfigOption<Boolean> UPSERTS = ConfigOptions.key("upserts").booleanType().defaultValue(false);
    private static final ConfigOption<String> TRIAL = ConfigOptions.key("trial").stringType().noDefaultValue();

    /** Ids are handed out by remainder, which spreads them over any number of subtasks. */
    public static final int PARTITIONS = 12;

    @Override
    public String factoryIdentifier() {
        return IDENTIFIER;
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(ROWS, TRIAL);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of(UPSERTS);
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        RowType type = (RowType) context.getPhysicalRowDataType().getLogicalType();
        return new IdsTable(
                type, helper.getOptions().get(ROWS), helper.getOptions().get(TRIAL), helper.getOptions().get(UPSERTS));
    }

    /** Without deletes, of which there are none: Flink 2.2 cannot plan them above a watermark that a temporal join reads. */
    private static final ChangelogMode UPSERTS_ONLY = ChangelogMode.newBuilder()
            .addContainedKind(RowKind.INSERT)
            .addContainedKind(RowKind.UPDATE_AFTER)
            .build();

    private record IdsTable(RowType type, long rows, String trial, boolean upserts) implements ScanTableSource {
        @Override
        public ChangelogMode getChangelogMode() {
            return upserts ? UPSERTS_ONLY : ChangelogMode.insertOnly();
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            return new IdsStream(type, rows, trial, upserts);
        }

        @Override
        public DynamicTableSource copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return IDENTIFIER;
        }
    }

    private record IdsStream(RowType type, long rows, String trial, boolean upserts) implements DataStreamScanProvider {
        @Override
        @SuppressWarnings("deprecation") // state of an operator in the fewest lines
        public DataStream<RowData> produceDataStream(ProviderContext context, StreamExecutionEnvironment environment) {
            var stream = environment.addSource(new Ids(rows, trial, upserts), InternalTypeInfo.of(type));
            context.generateUid("ids").ifPresent(stream::uid);
            return stream;
        }

        @Override
        public boolean isBounded() {
            return false;
        }
    }

    @SuppressWarnings("deprecation")
    private static final class Ids extends RichParallelSourceFunction<RowData> implements CheckpointedFunction {
        private static final long serialVersionUID = 1L;

        private final long rows;
        private final String trialName;
        private final boolean upserts;
        /** The next id of each partition of this subtask. */
        private transient List<Long> next;
        private transient ListState<Long> state;
        private transient Trial trial;
        private volatile boolean running = true;

        Ids(long rows, String trialName, boolean upserts) {
            this.rows = rows;
            this.trialName = trialName;
            this.upserts = upserts;
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            trial = Trial.named(trialName);
            trial.started(context.isRestored());
            state = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("next", Types.LONG));
            next = new ArrayList<>();
            if (context.isRestored()) {
                state.get().forEach(next::add);
            } else {
                int subtasks = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
                int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
                for (long partition = subtask; partition < PARTITIONS; partition += subtasks) {
                    next.add(partition);
                }
            }
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            state.update(next);
        }

        @Override
        public void run(SourceContext<RowData> context) throws Exception {
            emit(context, rows / 2);
            trial.atHalf();
            while (running && !trial.isReleased()) {
                Thread.sleep(1);
            }
            emit(context, rows / 4 * 3);
            if (running && trial.failsNow()) {
                throw new IllegalStateException("The trial wants it so");
            }
            emit(context, rows);
        }

        private void emit(SourceContext<RowData> context, long end) {
            boolean some = true;
            while (running && some) {
                some = false;
                synchronized (context.getCheckpointLock()) {
                    for (int partition = 0; partition < next.size(); partition++) {
                        long id = next.get(partition);
                        if (id < end) {
                            context.collect(upserts ? GenericRowData.of(id % PARTITIONS, id) : GenericRowData.of(id));
                            next.set(partition, id + PARTITIONS);
                            some = true;
                        }
                    }
                }
            }
        }

        @Override
        public void cancel() {
            running = false;
        }
    }
}
