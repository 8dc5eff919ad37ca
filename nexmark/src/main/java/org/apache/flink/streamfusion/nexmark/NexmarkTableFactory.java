package org.apache.flink.streamfusion.nexmark;

import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.table.api.ValidationException;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.SourceProvider;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.types.logical.LogicalType;

import java.util.Set;

/** The connector {@code nexmark}: events of an online auction, as in {@code queries/ddl.sql}. Its options: {@link NexmarkSettings}. */
public final class NexmarkTableFactory implements DynamicTableSourceFactory {
    static final String IDENTIFIER = "nexmark";

    @Override
    public String factoryIdentifier() {
        return IDENTIFIER;
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of();
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return NexmarkSettings.OPTIONS;
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        LogicalType type = context.getPhysicalRowDataType().getLogicalType();
        LogicalType expected = EventGenerator.TYPE.getLogicalType();
        if (!type.copy(true).equals(expected)) {
            throw new ValidationException("The physical columns of a table of connector '" + IDENTIFIER + "' must be "
                    + expected.asSummaryString() + ", they are " + type.asSummaryString());
        }
        return new EventTable(NexmarkSettings.of(helper.getOptions()));
    }

    private record EventTable(NexmarkSettings settings) implements ScanTableSource {
        @Override
        public ChangelogMode getChangelogMode() {
            return ChangelogMode.insertOnly();
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            return SourceProvider.of(new NexmarkSource(settings));
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
}
