package org.apache.flink.streamfusion.nexmark;

import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.ValidationException;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.LookupTableSource;
import org.apache.flink.table.connector.source.lookup.AsyncLookupFunctionProvider;
import org.apache.flink.table.connector.source.lookup.LookupFunctionProvider;
import org.apache.flink.table.connector.source.lookup.LookupOptions;
import org.apache.flink.table.connector.source.lookup.PartialCachingAsyncLookupProvider;
import org.apache.flink.table.connector.source.lookup.PartialCachingLookupProvider;
import org.apache.flink.table.connector.source.lookup.cache.DefaultLookupCache;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.functions.AsyncLookupFunction;
import org.apache.flink.table.functions.FunctionContext;
import org.apache.flink.table.functions.LookupFunction;
import org.apache.flink.table.types.DataType;

import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;

/**
 * The connector {@code nexmark-side-input}: a table of numbers and a text for each, kept in memory, to be looked up by number.
 *
 * <p>{@code 'async' = 'true'} answers by futures; {@code 'lookup.cache' = 'PARTIAL'} puts Flink's cache in front.
 */
public final class SideInputTableFactory implements DynamicTableSourceFactory {
    private static final ConfigOption<Long> ROWS = ConfigOptions.key("rows")
            .longType()
            .noDefaultValue()
            .withDescription("The keys are the numbers from 0 up to this one, without it.");

    private static final ConfigOption<Boolean> ASYNC = ConfigOptions.key("async")
            .booleanType()
            .defaultValue(false)
            .withDescription("Whether to answer by futures.");

    private static final DataType TYPE = DataTypes.ROW(
            DataTypes.FIELD("key", DataTypes.BIGINT()), DataTypes.FIELD("value", DataTypes.STRING()));

    @Override
    public String factoryIdentifier() {
        return "nexmark-side-input";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(ROWS);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of(
                ASYNC,
                LookupOptions.CACHE_TYPE,
                LookupOptions.PARTIAL_CACHE_MAX_ROWS,
                LookupOptions.PARTIAL_CACHE_EXPIRE_AFTER_ACCESS,
                LookupOptions.PARTIAL_CACHE_EXPIRE_AFTER_WRITE,
                LookupOptions.PARTIAL_CACHE_CACHE_MISSING_KEY);
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        if (!context.getPhysicalRowDataType().getLogicalType().copy(true).equals(TYPE.getLogicalType())) {
            throw new ValidationException("The columns of a side input must be " + TYPE.getLogicalType().asSummaryString());
        }
        boolean cached = helper.getOptions().get(LookupOptions.CACHE_TYPE) == LookupOptions.LookupCacheType.PARTIAL;
        return new SideInput(
                helper.getOptions().get(ROWS),
                helper.getOptions().get(ASYNC),
                cached ? DefaultLookupCache.fromConfig(helper.getOptions()) : null);
    }

    private record SideInput(long rows, boolean async, DefaultLookupCache cache) implements LookupTableSource {
        @Override
        public LookupRuntimeProvider getLookupRuntimeProvider(LookupContext context) {
            if (context.getKeys().length != 1 || context.getKeys()[0][0] != 0) {
                throw new ValidationException("A side input is looked up by column key alone");
            }
            if (async) {
                AsyncLookup lookup = new AsyncLookup(rows);
                return cache == null
                        ? AsyncLookupFunctionProvider.of(lookup)
                        : PartialCachingAsyncLookupProvider.of(lookup, cache);
            }
            Lookup lookup = new Lookup(rows);
            return cache == null ? LookupFunctionProvider.of(lookup) : PartialCachingLookupProvider.of(lookup, cache);
        }

        @Override
        public DynamicTableSource copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return "nexmark-side-input";
        }
    }

    private static RowData[] load(long rows) {
        RowData[] values = new RowData[Math.toIntExact(rows)];
        for (int key = 0; key < values.length; key++) {
            values[key] = GenericRowData.of((long) key, StringData.fromString("side input " + key));
        }
        return values;
    }

    private static Collection<RowData> find(RowData[] values, RowData key) {
        if (key.isNullAt(0) || key.getLong(0) < 0 || key.getLong(0) >= values.length) {
            return List.of();
        }
        return List.of(values[(int) key.getLong(0)]);
    }

    /** Answers at once. */
    public static final class Lookup extends LookupFunction {
        private static final long serialVersionUID = 1L;

        private final long rows;
        private transient RowData[] values;

        Lookup(long rows) {
            this.rows = rows;
        }

        @Override
        public void open(FunctionContext context) {
            values = load(rows);
        }

        @Override
        public Collection<RowData> lookup(RowData key) {
            return find(values, key);
        }
    }

    /** Answers by futures. */
    public static final class AsyncLookup extends AsyncLookupFunction {
        private static final long serialVersionUID = 1L;

        private final long rows;
        private transient RowData[] values;

        AsyncLookup(long rows) {
            this.rows = rows;
        }

        @Override
        public void open(FunctionContext context) {
            values = load(rows);
        }

        @Override
        public CompletableFuture<Collection<RowData>> asyncLookup(RowData key) {
            return CompletableFuture.completedFuture(find(values, key));
        }
    }
}
