package org.apache.flink.streamfusion.tests.connector;

import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.SourceProvider;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.binary.BinaryRowData;
import org.apache.flink.table.data.writer.BinaryRowWriter;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;

import java.util.Set;

/**
 * The source of the checkpoint benchmark: each key once, in order, then keys at random for as long as the job runs.
 *
 * <p>So state has its full size from a known row on, and every row afterwards changes an entry that was not touched lately.
 */
public final class UpdatesFactory implements DynamicTableSourceFactory {
    public static final String IDENTIFIER = "bench-updates";

    /** What stands between the brackets of CREATE TABLE. */
    public static final String COLUMNS = "k BIGINT, v BIGINT";

    private static final ConfigOption<Long> KEYS = ConfigOptions.key("keys").longType().noDefaultValue();

    @Override
    public String factoryIdentifier() {
        return IDENTIFIER;
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(KEYS);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of();
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        return new UpdatesSource(helper.getOptions().get(KEYS));
    }

    private record UpdatesSource(long keys) implements ScanTableSource {
        @Override
        public ChangelogMode getChangelogMode() {
            return ChangelogMode.insertOnly();
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            return SourceProvider.of(new RowsSource(new UpdatesFeed(keys)));
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

    private static final class UpdatesFeed implements RowFeed {
        private static final long serialVersionUID = 1L;

        private final long keys;
        private transient BinaryRowData row;

        UpdatesFeed(long keys) {
            this.keys = keys;
        }

        @Override
        public void open() {
            row = new BinaryRowData(2);
            BinaryRowWriter writer = new BinaryRowWriter(row);
            writer.writeLong(0, 0);
            writer.writeLong(1, 0);
            writer.complete();
        }

        @Override
        public long size() {
            return Long.MAX_VALUE;
        }

        @Override
        public RowData rowAt(long position) {
            row.setLong(0, position < keys ? position : Math.floorMod(mix(position), keys));
            row.setLong(1, position);
            return row;
        }

        /** The finalizer of SplittableRandom: a position gives the same key whenever it is read. */
        private static long mix(long position) {
            long z = (position ^ (position >>> 30)) * 0xbf58476d1ce4e5b9L;
            z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL;
            return z ^ (z >>> 31);
        }
    }
}
