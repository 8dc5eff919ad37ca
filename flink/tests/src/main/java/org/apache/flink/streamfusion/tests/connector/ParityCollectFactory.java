package org.apache.flink.streamfusion.tests.connector;

import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.sink.SinkV2Provider;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DynamicTableSinkFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.types.logical.RowType;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

/** The sink of parity tests: hands the changelog that it receives to a collector in this JVM. */
public final class ParityCollectFactory implements DynamicTableSinkFactory {
    public static final String IDENTIFIER = "parity-collect";

    private static final ConfigOption<String> SINK_ID = ConfigOptions.key("sink-id").stringType().noDefaultValue();
    private static final ConfigOption<String> CHANGELOG =
            ConfigOptions.key("changelog").stringType().defaultValue("+I,-U,+U,-D");

    private static final Map<String, Consumer<Change>> COLLECTORS = new ConcurrentHashMap<>();

    /**
     * Hands every change that a sink with the returned id receives to the collector, of all subtasks one at a time and
     * of each subtask in order.
     */
    public static String register(Consumer<Change> collector) {
        String id = UUID.randomUUID().toString();
        COLLECTORS.put(id, collector);
        return id;
    }

    /** Forgets what {@link #register} returned the id of. */
    public static void unregister(String id) {
        COLLECTORS.remove(id);
    }

    @Override
    public String factoryIdentifier() {
        return IDENTIFIER;
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(SINK_ID);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of(CHANGELOG);
    }

    @Override
    public DynamicTableSink createDynamicTableSink(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        return new CollectSink(
                (RowType) context.getPhysicalRowDataType().getLogicalType(),
                context.getPrimaryKeyIndexes(),
                helper.getOptions().get(SINK_ID),
                RowKinds.parse(helper.getOptions().get(CHANGELOG)));
    }

    private record CollectSink(RowType type, int[] keyFields, String id, ChangelogMode mode)
            implements DynamicTableSink {
        @Override
        public ChangelogMode getChangelogMode(ChangelogMode requested) {
            return mode;
        }

        @Override
        public SinkRuntimeProvider getSinkRuntimeProvider(Context context) {
            return SinkV2Provider.of(new Collector(type, keyFields, id));
        }

        @Override
        public DynamicTableSink copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return IDENTIFIER;
        }
    }

    private record Collector(RowType type, int[] keyFields, String id) implements Sink<RowData> {
        private static final long serialVersionUID = 1L;

        @Override
        public SinkWriter<RowData> createWriter(WriterInitContext context) {
            Consumer<Change> consumer = COLLECTORS.get(id);
            if (consumer == null) {
                throw new IllegalStateException("Nobody collects under " + id);
            }
            return new Writer(this, consumer);
        }
    }

    private record Writer(Collector collector, Consumer<Change> consumer) implements SinkWriter<RowData> {
        @Override
        public void write(RowData row, Context context) {
            List<String> key = new ArrayList<>();
            for (int field : collector.keyFields()) {
                key.add(RowText.ofField(row, collector.type(), field));
            }
            Change change = new Change(row.getRowKind(), key.toString(), RowText.ofRow(row, collector.type()));
            synchronized (consumer) {
                consumer.accept(change);
            }
        }

        @Override
        public void flush(boolean endOfInput) {}

        @Override
        public void close() {}
    }
}
