package org.apache.flink.streamfusion.tests.connector;

import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.ReadableConfig;
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
 * {@link #COLUMNS}. With {@code rows-per-millisecond} time goes on from block to block, and with {@code auctions} there are that many,
 * equally often or, with {@code skew}, such that one is met half as often as another of half its number. Both are written into a row just
 * before it is emitted, so that only one task at a time may read such a table.
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

    private static final ConfigOption<Long> NUM_AUCTIONS = ConfigOptions.key("auctions").longType().defaultValue(0L);

    private static final ConfigOption<Boolean> SKEW = ConfigOptions.key("skew").booleanType().defaultValue(false);

    private static final int AUCTION = 0;
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
        return Set.of(ROWS_PER_MILLISECOND, NUM_AUCTIONS, SKEW);
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        ReadableConfig options = helper.getOptions();
        return new BidsSource(
                new BidsFeed(
                        options.get(ROWS),
                        options.get(ROWS_PER_MILLISECOND),
                        options.get(NUM_AUCTIONS),
                        options.get(SKEW)));
    }

    private record BidsSource(BidsFeed feed) implements ScanTableSource {
        @Override
        public ChangelogMode getChangelogMode() {
            return ChangelogMode.insertOnly();
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
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

    private static final class BidsFeed implements RowFeed {
        private static final long serialVersionUID = 1L;

        private final long rows;

        /** 0: rows have the times that they were made with. */
        private final int rowsPerMillisecond;

        /** 0: rows have the auctions that they were made with. */
        private final long auctions;

        private final boolean skew;

        private transient BinaryRowData[] block;

        BidsFeed(long rows, int rowsPerMillisecond, long auctions, boolean skew) {
            this.rows = rows;
            this.rowsPerMillisecond = rowsPerMillisecond;
            this.auctions = auctions;
            this.skew = skew;
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
            if (auctions > 0) {
                row.setLong(AUCTION, auction(position));
            }
            return row;
        }

        private long auction(long position) {
            double random = (mix(position) >>> 11) * 0x1.0p-53;
            return skew ? (long) Math.pow(auctions, random) - 1 : (long) (random * auctions);
        }

        /** The finalizer of MurmurHash3. */
        private static long mix(long value) {
            long hash = value + SEED;
            hash = (hash ^ (hash >>> 33)) * 0xff51afd7ed558ccdL;
            hash = (hash ^ (hash >>> 33)) * 0xc4ceb9fe1a85ec53L;
            return hash ^ (hash >>> 33);
        }
    }
}
