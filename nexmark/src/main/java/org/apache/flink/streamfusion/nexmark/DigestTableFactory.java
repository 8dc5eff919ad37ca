package org.apache.flink.streamfusion.nexmark;

import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.streamfusion.tests.connector.RowText;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.sink.SinkV2Provider;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DynamicTableSinkFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.types.RowKind;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/**
 * The connector {@code nexmark-digest}: takes every row kind and leaves a {@link Digest} under the id of the table's options.
 *
 * <p>With a primary key, rows replace the earlier ones of their key, and the job must have parallelism 1.
 */
public final class DigestTableFactory implements DynamicTableSinkFactory {
    static final String IDENTIFIER = "nexmark-digest";

    private static final ConfigOption<String> ID = ConfigOptions.key("id").stringType().noDefaultValue();

    @Override
    public String factoryIdentifier() {
        return IDENTIFIER;
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(ID);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of();
    }

    @Override
    public DynamicTableSink createDynamicTableSink(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        return new DigestTable(
                (RowType) context.getPhysicalRowDataType().getLogicalType(),
                context.getPrimaryKeyIndexes(),
                helper.getOptions().get(ID));
    }

    private record DigestTable(RowType type, int[] keyFields, String id) implements DynamicTableSink {
        @Override
        public ChangelogMode getChangelogMode(ChangelogMode requested) {
            return ChangelogMode.all();
        }

        @Override
        public SinkRuntimeProvider getSinkRuntimeProvider(Context context) {
            return SinkV2Provider.of(new DigestSink(type, keyFields, id));
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

    private record DigestSink(RowType type, int[] keyFields, String id) implements Sink<RowData> {
        private static final long serialVersionUID = 1L;

        @Override
        public SinkWriter<RowData> createWriter(WriterInitContext context) {
            return new Writer(this);
        }
    }

    private static final class Writer implements SinkWriter<RowData> {
        private final DigestSink sink;
        private final Map<String, String> rowOfKey = new HashMap<>();
        private Digest digest = Digest.EMPTY;

        Writer(DigestSink sink) {
            this.sink = sink;
        }

        @Override
        public void write(RowData row, Context context) {
            boolean comes = row.getRowKind() == RowKind.INSERT || row.getRowKind() == RowKind.UPDATE_AFTER;
            String text = RowText.ofRow(row, sink.type());
            if (sink.keyFields().length == 0) {
                digest = digest.plus(comes ? 1 : -1, text);
                return;
            }
            String key = key(row);
            String replaced = comes ? rowOfKey.put(key, text) : rowOfKey.remove(key);
            if (replaced != null) {
                digest = digest.plus(-1, replaced);
            }
            if (comes) {
                digest = digest.plus(1, text);
            }
        }

        private String key(RowData row) {
            StringBuilder key = new StringBuilder();
            for (int field : sink.keyFields()) {
                key.append(RowText.ofField(row, sink.type(), field)).append(',');
            }
            return key.toString();
        }

        @Override
        public void flush(boolean endOfInput) {
            Digest.collect(sink.id(), digest);
            digest = Digest.EMPTY;
        }

        @Override
        public void close() {}
    }
}
