package org.apache.flink.streamfusion.tests.connector;

import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.RuntimeConverter;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.SourceProvider;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.runtime.typeutils.RowDataSerializer;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.types.Row;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The source of parity tests: rows of this JVM, found by an id, emitted in order with their row kinds.
 *
 * <p>Rows with {@code behind} wait for {@link #release}.
 *
 * <p>Rows leave as {@code GenericRowData}, as {@code BinaryRowData} or alternating, because Flink's own operators
 * produce both forms.
 */
public final class ParityValuesFactory implements DynamicTableSourceFactory {
    public static final String IDENTIFIER = "parity-values";

    private static final ConfigOption<String> DATA_ID = ConfigOptions.key("data-id").stringType().noDefaultValue();
    private static final ConfigOption<String> CHANGELOG = ConfigOptions.key("changelog").stringType().defaultValue("+I");
    private static final ConfigOption<RowForm> ROW_FORM =
            ConfigOptions.key("row-form").enumType(RowForm.class).defaultValue(RowForm.MIXED);
    private static final ConfigOption<Boolean> BEHIND = ConfigOptions.key("behind").booleanType().defaultValue(false);

    private static final Map<String, List<Row>> REGISTERED = new ConcurrentHashMap<>();
    /** By id: complete when all rows have gone out. */
    private static final Map<String, CompletableFuture<Void>> ENDED = new ConcurrentHashMap<>();

    /** By id: complete when rows may go out. */
    private static final Map<String, CompletableFuture<Void>> RELEASED = new ConcurrentHashMap<>();

    private static final AtomicLong NEXT_ID = new AtomicLong();

    /** Makes rows readable by tables whose option {@code data-id} is the returned id. */
    public static String register(List<Row> rows) {
        String id = "rows-" + NEXT_ID.incrementAndGet();
        REGISTERED.put(id, List.copyOf(rows));
        ENDED.put(id, new CompletableFuture<>());
        RELEASED.put(id, new CompletableFuture<>());
        return id;
    }

    /** Forgets what {@link #register} returned the id of. */
    public static void unregister(String id) {
        REGISTERED.remove(id);
        ENDED.remove(id);
        RELEASED.remove(id);
    }

    /** Complete when all rows with this id have gone out. */
    public static CompletableFuture<Void> ended(String id) {
        return ENDED.get(id);
    }

    /** Lets rows with {@code behind} go out. */
    public static void release(String id) {
        RELEASED.get(id).complete(null);
    }

    @Override
    public String factoryIdentifier() {
        return IDENTIFIER;
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(DATA_ID);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of(CHANGELOG, ROW_FORM, BEHIND);
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        return new ValuesSource(
                context.getPhysicalRowDataType(),
                helper.getOptions().get(DATA_ID),
                helper.getOptions().get(BEHIND),
                RowKinds.parse(helper.getOptions().get(CHANGELOG)),
                helper.getOptions().get(ROW_FORM));
    }

    /** The class of the emitted rows. */
    public enum RowForm {
        GENERIC,
        BINARY,
        MIXED
    }

    private record ValuesSource(DataType type, String id, boolean behind, ChangelogMode mode, RowForm form)
            implements ScanTableSource {
        @Override
        public ChangelogMode getChangelogMode() {
            return mode;
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            DataStructureConverter converter = context.createDataStructureConverter(type);
            RowFeed feed = new ValuesFeed(id, behind, converter, (RowType) type.getLogicalType(), form);
            return SourceProvider.of(new RowsSource(feed));
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

    private static final class ValuesFeed implements RowFeed {
        private static final long serialVersionUID = 1L;

        private final String id;
        private final boolean behind;
        private final DynamicTableSource.DataStructureConverter converter;
        private final RowType type;
        private final RowForm form;
        private transient List<RowData> rows;

        ValuesFeed(
                String id,
                boolean behind,
                DynamicTableSource.DataStructureConverter converter,
                RowType type,
                RowForm form) {
            this.id = id;
            this.behind = behind;
            this.converter = converter;
            this.type = type;
            this.form = form;
        }

        @Override
        public void open() {
            List<Row> registered = REGISTERED.get(id);
            if (registered == null) {
                throw new IllegalStateException("No rows are registered as " + id);
            }
            converter.open(RuntimeConverter.Context.create(Thread.currentThread().getContextClassLoader()));
            RowDataSerializer serializer = new RowDataSerializer(type);
            rows = new ArrayList<>(registered.size());
            for (Row row : registered) {
                RowData generic = (RowData) converter.toInternal(row);
                generic.setRowKind(row.getKind());
                boolean binary = form == RowForm.BINARY || form == RowForm.MIXED && rows.size() % 2 == 1;
                rows.add(binary ? serializer.toBinaryRow(generic).copy() : generic);
            }
        }

        @Override
        public long size() {
            return rows.size();
        }

        @Override
        public RowData rowAt(long position) {
            return rows.get((int) position);
        }

        @Override
        public CompletableFuture<Void> start() {
            return behind ? RELEASED.get(id) : RowFeed.super.start();
        }

        @Override
        public void ended() {
            ENDED.get(id).complete(null);
        }
    }
}
