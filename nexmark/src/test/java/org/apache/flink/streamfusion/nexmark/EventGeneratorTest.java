package org.apache.flink.streamfusion.nexmark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import org.apache.flink.streamfusion.tests.connector.RowText;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.logical.LogicalTypeRoot;
import org.apache.flink.table.types.logical.RowType;
import org.junit.jupiter.api.Test;

import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.ToLongFunction;
import java.util.stream.LongStream;

/** What is promised about events. */
class EventGeneratorTest {
    private static final RowType TYPE = (RowType) EventGenerator.TYPE.getLogicalType();
    private static final NexmarkSettings STANDARD = Settings.of(Map.of());
    private static final int EVENTS = 50_000;

    private static final int PERSON = 0;
    private static final int AUCTION = 1;
    private static final int BID = 2;

    @Test
    void itsNumberAloneDecidesAnEvent() {
        List<String> ascending = new ArrayList<>();
        EventGenerator generator = new EventGenerator(STANDARD);
        for (long event = 0; event < 1000; event++) {
            ascending.add(RowText.ofRow(generator.event(event), TYPE));
        }
        for (int event = 999; event >= 0; event -= 7) {
            assertThat(RowText.ofRow(new EventGenerator(STANDARD).event(event), TYPE)).isEqualTo(ascending.get(event));
        }
        assertThat(new HashSet<>(ascending)).hasSize(1000);
    }

    @Test
    void otherSeedsGiveOtherEvents() {
        NexmarkSettings other = Settings.of(Map.of("seed", "43"));
        assertThat(RowText.ofRow(new EventGenerator(other).event(100), TYPE))
                .isNotEqualTo(RowText.ofRow(new EventGenerator(STANDARD).event(100), TYPE));
    }

    @Test
    void everyFiftyEventsAreAPersonThreeAuctionsAndFortySixBids() {
        EventGenerator generator = new EventGenerator(STANDARD);
        for (long event = 0; event < 500; event++) {
            RowData row = generator.event(event);
            int expected = event % 50 == 0 ? PERSON : event % 50 < 4 ? AUCTION : BID;
            assertThat(row.getInt(0)).isEqualTo(expected);
            for (int kind = PERSON; kind <= BID; kind++) {
                assertThat(row.isNullAt(1 + kind)).isEqualTo(kind != expected);
            }
        }
    }

    @Test
    void everybodyAndEverythingWasThereBefore() {
        NexmarkSettings settings =
                Settings.of(Map.of("people.share", "2", "auctions.share", "5", "bids.share", "20", "rate", "1000"));
        EventGenerator generator = new EventGenerator(settings);
        Set<Long> people = new HashSet<>();
        Set<Long> auctions = new HashSet<>();
        for (long event = 0; event < EVENTS; event++) {
            RowData row = generator.event(event);
            switch (row.getInt(0)) {
                case PERSON -> assertThat(people.add(person(row).getLong(0))).isTrue();
                case AUCTION -> {
                    assertThat(auctions.add(auction(row).getLong(0))).isTrue();
                    assertThat(people).contains(auction(row).getLong(7));
                    assertThat(auction(row).getTimestamp(6, 3)).isGreaterThan(auction(row).getTimestamp(5, 3));
                    assertThat(auction(row).getLong(4)).isGreaterThan(auction(row).getLong(3));
                    assertThat(auction(row).getLong(8)).isBetween(10L, 14L);
                }
                default -> {
                    assertThat(auctions).contains(bid(row).getLong(0));
                    assertThat(people).contains(bid(row).getLong(1));
                }
            }
        }
        assertThat(people).hasSize(2 * ((EVENTS + 26) / 27));
    }

    @Test
    void timeGoesOnWithTheRate() {
        EventGenerator generator = new EventGenerator(Settings.of(Map.of("rate", "3", "start", "2026-02-28 23:59:59")));
        LocalDateTime fourth = LocalDateTime.of(2026, 3, 1, 0, 0, 0, 333_000_000);
        assertThat(time(generator.event(4))).isEqualTo(fourth);
        assertThat(time(generator.event(3_000_000_000_004L))).isEqualTo(fourth.plusSeconds(1_000_000_000_000L));
    }

    private static LocalDateTime time(RowData row) {
        return bid(row).getTimestamp(5, 3).toLocalDateTime();
    }

    @Test
    void sizesAreAsAskedForOnAverage() {
        assertThat(averageBytes(PERSON)).isCloseTo(200, within(4.0));
        assertThat(averageBytes(AUCTION)).isCloseTo(500, within(5.0));
        assertThat(averageBytes(BID)).isCloseTo(100, within(2.0));
    }

    private static double averageBytes(int kind) {
        RowType type = (RowType) TYPE.getTypeAt(1 + kind);
        return events(kind).stream()
                .map(row -> row.getRow(1 + kind, type.getFieldCount()))
                .mapToInt(row -> bytes(row, type))
                .average()
                .orElseThrow();
    }

    private static int bytes(RowData row, RowType type) {
        int bytes = 0;
        for (int i = 0; i < type.getFieldCount(); i++) {
            bytes += type.getTypeAt(i).is(LogicalTypeRoot.VARCHAR) ? row.getString(i).toBytes().length : 8;
        }
        return bytes;
    }

    @Test
    void hotOnesGetTheirShare() {
        List<RowData> bids = events(BID);
        // Of the others, one of 100 hits the hot auction as well.
        assertThat(share(bids, row -> bid(row).getLong(0) % 100 == 0 ? 1 : 0)).isCloseTo(0.5, within(0.02));
        assertThat(share(bids, row -> bid(row).getLong(1) % 100 == 1 ? 1 : 0)).isCloseTo(0.75, within(0.02));
        assertThat(share(events(AUCTION), row -> auction(row).getLong(7) % 100 == 0 ? 1 : 0)).isCloseTo(0.75, within(0.02));
    }

    @Test
    void pricesAreSpreadEvenlyOverSixMagnitudes() {
        List<RowData> bids = events(BID);
        for (int magnitude = 2; magnitude < 8; magnitude++) {
            double low = Math.pow(10, magnitude);
            assertThat(share(bids, row -> bid(row).getLong(2) >= low && bid(row).getLong(2) < 10 * low ? 1 : 0))
                    .isCloseTo(1.0 / 6, within(0.01));
        }
    }

    @Test
    void halfOfTheChannelsAreWellKnownAndMostOthersAreInTheUrl() {
        List<RowData> bids = events(BID);
        Set<String> wellKnown = Set.of("Google", "Facebook", "Baidu", "Apple");
        assertThat(share(bids, row -> wellKnown.contains(bid(row).getString(3).toString()) ? 1 : 0))
                .isCloseTo(0.5, within(0.02));
        for (RowData row : bids.subList(0, 1000)) {
            String channel = bid(row).getString(3).toString();
            String url = bid(row).getString(4).toString();
            assertThat(url).matches("https://bid\\.test/[a-z]{3}/[a-z]{3}/[a-z]{3}/item\\?q=1(&channel_id=\\d+)?");
            if (url.contains("channel_id")) {
                assertThat(url).endsWith("&channel_id=" + channel.substring("channel-".length()));
            }
        }
        assertThat(share(bids, row -> bid(row).getString(4).toString().contains("channel_id") ? 1 : 0))
                .isCloseTo(0.45, within(0.02));
    }

    @Test
    void settingsThatMakeNoSenseAreRefused() {
        assertThatThrownBy(() -> Settings.of(Map.of("mode", "replay"))).hasMessageContaining("set 'events'");
        assertThatThrownBy(() -> Settings.of(Map.of("rate", "0"))).hasMessageContaining("'rate' must be positive");
        assertThatThrownBy(() -> Settings.of(Map.of("people.share", "0"))).hasMessageContaining("people");
    }

    private static double share(List<RowData> rows, ToLongFunction<RowData> isOne) {
        return rows.stream().mapToLong(isOne).average().orElseThrow();
    }

    private static List<RowData> events(int kind) {
        EventGenerator generator = new EventGenerator(STANDARD);
        return LongStream.range(0, kind == BID ? EVENTS : 10L * EVENTS)
                .filter(event -> STANDARD.numbers().kind(event).ordinal() == kind)
                .mapToObj(generator::event)
                .toList();
    }

    private static RowData person(RowData row) {
        return row.getRow(1, 8);
    }

    private static RowData auction(RowData row) {
        return row.getRow(2, 10);
    }

    private static RowData bid(RowData row) {
        return row.getRow(3, 7);
    }
}
