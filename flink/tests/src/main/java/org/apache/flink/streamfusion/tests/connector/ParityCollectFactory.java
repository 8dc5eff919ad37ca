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
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** The sink of parity tests: keeps the changelog that it receives, in order, in this JVM. */
public final class ParityCollectFactory implements DynamicTableSinkFactory {
    public static final String IDENTIFIER = "parity-collect";

    private static final ConfigOption<String> SINK_ID = ConfigOptions.key("sink-id").stringType().noDefaultValue();
    private static final ConfigOption<String> CHANGELOG =
            ConfigOptions.key("changelog").stringType().defaultValue("+I,-U,+U,-D");

    private static final Map<String, List<Change>> COLLECTED = new ConcurrentHashMap<>();

    /** Starts collecting under an id. */
    public static void register(String id) {
        COLLECTED.put(id, Collections.synchronizedList(new ArrayList<>()));
    }

    /** Ends collecting under an id and returns what came, per subtask in order. */
    public static List<Change> take(String id) {
        return List.copyOf(COLLECTED.remove(id));
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
            List<Change> changes = COLLECTED.get(id);
            if (changes == null) {
                throw new IllegalStateException("Nobody collects under " + id);
            }
            return new Writer(this, changes);
        }
    }

    private record Writer(Collector collector, List<Change> changes) implements SinkWriter<RowData> {
        @Override
        public void write(RowData row, Context context) {
            List<String> key = new ArrayList<>();
            for (int field : collector.keyFields()) {
                key.add(RowText.ofField(row, collector.type(), field));
            }
            changes.add(new Change(row.getRowKind(), key.toString(), RowText.ofRow(row, collector.type())));
        }

        @Override
        public void flush(boolean endOfInput) {}

        @Override
        public void close() {}
    }
}
