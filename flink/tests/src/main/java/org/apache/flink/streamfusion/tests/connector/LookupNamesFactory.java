package org.apache.flink.streamfusion.tests.connector;

import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.LookupTableSource;
import org.apache.flink.table.connector.source.lookup.AsyncLookupFunctionProvider;
import org.apache.flink.table.connector.source.lookup.LookupFunctionProvider;
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

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * Connector {@code lookup-names}: a table {@code (k INT, name STRING, n INT)} that is only looked up, by {@code k} or by {@code
 * name}, and by {@code n} beside either. Key {@code k} has {@code k % 4} rows named {@code name-k} and numbered from 0, key 99 has
 * more than a batch, and key 66 fails.
 */
public final class LookupNamesFactory implements DynamicTableSourceFactory {
    private static final int MANY = 9_000;
    private static final ConfigOption<Boolean> ASYNC = ConfigOptions.key("async").booleanType().defaultValue(false);
    private static final ConfigOption<Boolean> CACHE = ConfigOptions.key("cache").booleanType().defaultValue(false);

    @Override
    public String factoryIdentifier() {
        return "lookup-names";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of();
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of(ASYNC, CACHE);
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        return new Source(helper.getOptions().get(ASYNC), helper.getOptions().get(CACHE));
    }

    private record Source(boolean async, boolean cache) implements LookupTableSource {
        @Override
        public LookupRuntimeProvider getLookupRuntimeProvider(LookupContext context) {
            int[] keys = Arrays.stream(context.getKeys()).mapToInt(path -> path[0]).toArray();
            if (async) {
                return AsyncLookupFunctionProvider.of(new Later(keys));
            }
            return cache
                    ? PartialCachingLookupProvider.of(
                            new Now(keys), DefaultLookupCache.newBuilder().maximumSize(3).build())
                    : LookupFunctionProvider.of(new Now(keys));
        }

        @Override
        public DynamicTableSource copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return "lookup-names";
        }
    }

    private static Collection<RowData> find(int[] keys, RowData key) {
        Integer k = null;
        Integer n = null;
        for (int i = 0; i < keys.length; i++) {
            switch (keys[i]) {
                case 0 -> k = key.getInt(i);
                case 1 -> k = Integer.valueOf(key.getString(i).toString().substring("name-".length()));
                default -> n = key.getInt(i);
            }
        }
        if (k == 66) {
            throw new IllegalStateException("nobody knows 66");
        }
        List<RowData> found = new ArrayList<>();
        for (int row = 0; row < (k == 99 ? MANY : Math.floorMod(k, 4)); row++) {
            if (n == null || n == row) {
                found.add(GenericRowData.of(k, StringData.fromString("name-" + k), row));
            }
        }
        return found;
    }

    /** Answers at once. */
    public static final class Now extends LookupFunction {
        private static final long serialVersionUID = 1L;

        private final int[] keys;

        Now(int[] keys) {
            this.keys = keys;
        }

        @Override
        public Collection<RowData> lookup(RowData key) {
            return find(keys, key);
        }
    }

    /** Answers from another thread, small keys after large ones; a negative one never. */
    public static final class Later extends AsyncLookupFunction {
        private static final long serialVersionUID = 1L;

        private final int[] keys;
        private transient ScheduledExecutorService executor;

        Later(int[] keys) {
            this.keys = keys;
        }

        @Override
        public void open(FunctionContext context) {
            executor = Executors.newScheduledThreadPool(2);
        }

        @Override
        public CompletableFuture<Collection<RowData>> asyncLookup(RowData key) {
            CompletableFuture<Collection<RowData>> answer = new CompletableFuture<>();
            int k = key.getInt(0);
            if (k >= 0) {
                Runnable task = () -> {
                    try {
                        answer.complete(find(keys, key));
                    } catch (RuntimeException e) {
                        answer.completeExceptionally(e);
                    }
                };
                executor.schedule(task, 3000 / (k + 1), TimeUnit.MICROSECONDS);
            }
            return answer;
        }

        @Override
        public void close() {
            executor.shutdownNow();
        }
    }
}
