package org.apache.flink.streamfusion.tests.connector;

import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.SourceProvider;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.data.binary.BinaryRowData;
import org.apache.flink.table.data.writer.BinaryRowWriter;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;

import java.util.Set;
import java.util.SplittableRandom;

/**
 * The source of the job benchmark: bids that lie ready in memory, so that a job's time is not the time to make them.
 *
 * <p>A block of rows is made once per JVM and read over and over until {@code rows} were emitted. The columns are
 * {@link #COLUMNS}. With {@code rows-per-millisecond} time goes on from block to block: the time of a row is written into it just before
 * it is emitted, so that only one task at a time may read such a table.
 */
public final class BidsFactory implements DynamicTableSourceFactory {
    public static final String IDENTIFIER = "bench-bids";

    /** What stands between the brackets of CREATE TABLE. */
    public static final String COLUMNS = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, "
            + "date_time TIMESTAMP(3), extra STRING";

    /** Number of auctions, bidders and channels in the block. */
    public static final int AUCTIONS = 100_000;

    private static final int BIDDERS = 10_000;
    private static final int CHANNELS = 100;
    private static final int MAX_PRICE = 2_000_000;
    private static final long FIRST_MILLIS = 1_700_000_000_000L;
    private static final int BLOCK_ROWS = 1_000_000;
    private static final long SEED = 42;

    private static final ConfigOption<Long> ROWS = ConfigOptions.key("rows").longType().noDefaultValue();

    private static final ConfigOption<Integer> ROWS_PER_MILLISECOND =
            ConfigOptions.key("rows-per-millisecond").intType().defaultValue(0);

    private static final int TIME = 5;
    private static final int TIME_PRECISION = 3;

    private static BinaryRowData[] block;

    /** Makes the block, unless it was made before. */
    public static synchronized void prepare() {
        if (block != null) {
            return;
        }
        SplittableRandom random = new SplittableRandom(SEED);
        BinaryRowData[] rows = new BinaryRowData[BLOCK_ROWS];
        for (int i = 0; i < rows.length; i++) {
            rows[i] = bid(random, i);
        }
        block = rows;
    }

    private static BinaryRowData bid(SplittableRandom random, int index) {
        BinaryRowData row = new BinaryRowData(7);
        BinaryRowWriter writer = new BinaryRowWriter(row);
        int channel = random.nextInt(CHANNELS);
        writer.writeLong(0, random.nextInt(AUCTIONS));
        writer.writeLong(1, random.nextInt(BIDDERS));
        writer.writeLong(2, random.nextInt(MAX_PRICE));
        writer.writeString(3, StringData.fromString("channel-" + channel));
        writer.writeString(4, StringData.fromString("https://auctions.example/" + channel + "/item.htm?query=1"));
        writer.writeTimestamp(TIME, TimestampData.fromEpochMillis(FIRST_MILLIS + index), TIME_PRECISION);
        writer.writeString(6, StringData.fromString(Long.toString(random.nextLong(), Character.MAX_RADIX)));
        writer.complete();
        return row;
    }

    @Override
    public String factoryIdentifier() {
        return IDENTIFIER;
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(ROWS);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of(ROWS_PER_MILLISECOND);
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        return new BidsSource(helper.getOptions().get(ROWS), helper.getOptions().get(ROWS_PER_MILLISECOND));
    }

    private record BidsSource(long rows, int rowsPerMillisecond) implements ScanTableSource {
        @Override
        public ChangelogMode getChangelogMode() {
            return ChangelogMode.insertOnly();
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            return SourceProvider.of(new RowsSource(new BidsFeed(rows, rowsPerMillisecond)));
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

    private static final class BidsFeed implements RowFeed {
        private static final long serialVersionUID = 1L;

        private final long rows;

        /** 0: rows have the times that they were made with. */
        private final int rowsPerMillisecond;

        private transient BinaryRowData[] block;

        BidsFeed(long rows, int rowsPerMillisecond) {
            this.rows = rows;
            this.rowsPerMillisecond = rowsPerMillisecond;
        }

        @Override
        public void open() {
            prepare();
            block = BidsFactory.block;
        }

        @Override
        public long size() {
            return rows;
        }

        @Override
        public RowData rowAt(long position) {
            BinaryRowData row = block[(int) (position % block.length)];
            if (rowsPerMillisecond > 0) {
                row.setTimestamp(TIME, TimestampData.fromEpochMillis(FIRST_MILLIS + position / rowsPerMillisecond), TIME_PRECISION);
            }
            return row;
        }
    }
}
