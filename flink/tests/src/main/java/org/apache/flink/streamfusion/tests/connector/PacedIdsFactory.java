package org.apache.flink.streamfusion.tests.connector;

import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.SourceProvider;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;

/**
 * A source of one BIGINT column: the ids from 0 to {@code rows - 1}, in order, slowly until a file exists and then as fast as
 * they are taken.
 *
 * <p>A test that has to do things while a job runs needs a job that runs for as long as that takes, on any machine, and ends
 * soon afterwards. Restored, it goes on at the next id. It depends on Flink alone, so that it can lie in {@code lib/}.
 */
public final class PacedIdsFactory implements DynamicTableSourceFactory {
    public static final String IDENTIFIER = "test-paced-ids";

    private static final ConfigOption<Long> ROWS = ConfigOptions.key("rows").longType().noDefaultValue();
    private static final ConfigOption<String> RELEASE_FILE =
            ConfigOptions.key("release-file").stringType().noDefaultValue();

    private static final long MILLIS_PER_ROW = 2;

    @Override
    public String factoryIdentifier() {
        return IDENTIFIER;
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(ROWS, RELEASE_FILE);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of();
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        return new IdsSource(helper.getOptions().get(ROWS), helper.getOptions().get(RELEASE_FILE));
    }

    private record IdsSource(long rows, String releaseFile) implements ScanTableSource {
        @Override
        public ChangelogMode getChangelogMode() {
            return ChangelogMode.insertOnly();
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            return SourceProvider.of(new RowsSource(new IdsFeed(rows, releaseFile)));
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

    private static final class IdsFeed implements RowFeed {
        private static final long serialVersionUID = 1L;

        private final long rows;
        private final String releaseFile;
        private transient GenericRowData row;
        private transient boolean released;

        IdsFeed(long rows, String releaseFile) {
            this.rows = rows;
            this.releaseFile = releaseFile;
        }

        @Override
        public void open() {
            row = new GenericRowData(1);
            released = false;
        }

        @Override
        public long size() {
            return rows;
        }

        @Override
        public RowData rowAt(long position) {
            if (!released) {
                released = Files.exists(Path.of(releaseFile));
                pause();
            }
            row.setField(0, position);
            return row;
        }

        private static void pause() {
            try {
                Thread.sleep(MILLIS_PER_ROW);
            } catch (InterruptedException e) {
                // Flink interrupts a task to cancel it, and looks at the flag itself.
                Thread.currentThread().interrupt();
            }
        }
    }
}
