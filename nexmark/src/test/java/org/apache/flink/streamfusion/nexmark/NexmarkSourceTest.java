package org.apache.flink.streamfusion.nexmark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceOutput;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.streamfusion.tests.Engine;
import org.apache.flink.streamfusion.tests.LocalCluster;
import org.apache.flink.streamfusion.tests.connector.RowText;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.logical.RowType;
import org.junit.jupiter.api.Test;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** How events are handed out. */
class NexmarkSourceTest {
    private static final RowType TYPE = (RowType) EventGenerator.TYPE.getLogicalType();

    @Test
    void tablesAreTheSameAtAnyParallelismAndReplayed() throws Exception {
        Digest expected = digest(1, "generate");
        assertThat(expected.rows()).isEqualTo(5000);
        assertThat(digest(3, "generate")).isEqualTo(expected);
        assertThat(digest(1, "replay")).isEqualTo(expected);
        assertThat(digest(3, "replay")).isEqualTo(expected);
    }

    private static Digest digest(int parallelism, String mode) throws Exception {
        Configuration configuration = new Configuration();
        Engine.STOCK.select(configuration);
        TableEnvironment environment = LocalCluster.tableEnvironment(configuration, parallelism);
        NexmarkQuery.createEvents(environment, Map.of("events", "5000", "mode", mode));
        environment.executeSql("CREATE TABLE copy (event_type INT, `dateTime` TIMESTAMP(3), person VARCHAR, auction VARCHAR, bid VARCHAR)"
                + " WITH ('connector' = 'nexmark-digest', 'id' = 'copy')");
        environment.executeSql("INSERT INTO copy SELECT event_type, `dateTime`, CAST(person AS VARCHAR), CAST(auction AS VARCHAR), "
                        + "CAST(bid AS VARCHAR) FROM nexmark")
                .await();
        return Digest.take("copy");
    }

    @Test
    void readerGoesThroughSeveralSplitsInTheOrderOfTime() {
        NexmarkSettings settings = Settings.of(Map.of("events", "1000"));
        EventReader reader = new EventReader(settings);
        reader.addSplits(EventSplit.all(3));
        reader.notifyNoMoreSplits();
        assertThat(read(reader, Integer.MAX_VALUE)).isEqualTo(expected(settings, 0, 1000));
    }

    @Test
    void readerGoesOnWhereItsStateSays() throws Exception {
        for (String mode : List.of("generate", "replay")) {
            NexmarkSettings settings = Settings.of(Map.of("events", "1000", "mode", mode));
            EventReader reader = new EventReader(settings);
            reader.addSplits(EventSplit.all(2));
            reader.notifyNoMoreSplits();
            List<String> rows = read(reader, 5);

            EventSplit.Serializer serializer = new EventSplit.Serializer();
            EventReader restored = new EventReader(settings);
            for (EventSplit split : reader.snapshotState(1)) {
                restored.addSplits(List.of(serializer.deserialize(serializer.getVersion(), serializer.serialize(split))));
            }
            restored.notifyNoMoreSplits();
            rows.addAll(read(restored, Integer.MAX_VALUE));
            assertThat(rows).isEqualTo(expected(settings, 0, 1000));
        }
    }

    @Test
    void splitsOfAnUnknownVersionAreRefused() {
        assertThatThrownBy(() -> new EventSplit.Serializer().deserialize(2, new byte[16])).hasMessageContaining("version 2");
    }

    private static List<String> expected(NexmarkSettings settings, long from, long to) {
        EventGenerator generator = new EventGenerator(settings);
        List<String> rows = new ArrayList<>();
        for (long event = from; event < to; event++) {
            rows.add(RowText.ofRow(generator.event(event), TYPE));
        }
        return rows;
    }

    private static List<String> read(EventReader reader, int polls) {
        Rows rows = new Rows();
        for (int i = 0; i < polls && reader.pollNext(rows) == InputStatus.MORE_AVAILABLE; i++) {
            // the reader has handed out some
        }
        return rows.texts;
    }

    private static final class Rows implements ReaderOutput<RowData> {
        private final List<String> texts = new ArrayList<>();

        @Override
        public void collect(RowData row) {
            texts.add(RowText.ofRow(row, TYPE));
        }

        @Override
        public void collect(RowData row, long timestamp) {
            collect(row);
        }

        @Override
        public void emitWatermark(Watermark watermark) {}

        @Override
        public void markIdle() {}

        @Override
        public void markActive() {}

        @Override
        public SourceOutput<RowData> createOutputForSplit(String splitId) {
            return this;
        }

        @Override
        public void releaseOutputForSplit(String splitId) {}
    }
}
