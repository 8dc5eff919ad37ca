package org.apache.flink.streamfusion.nexmark;

import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.ReadableConfig;

import java.io.Serializable;
import java.time.Duration;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Set;

/**
 * All that decides about the events of a table, and how it hands them out.
 *
 * @param events how many there are; {@link Long#MAX_VALUE} if they never end
 * @param rate events per second of event time
 * @param seed of everything that is random
 * @param startMillis time of the first event, since the epoch
 * @param numbers the shares of the kinds
 * @param hot how much goes to the hot ones
 * @param inFlightAuctions the last auctions, on which people bid
 * @param activePeople the last people, who sell and bid
 * @param sizes of events
 * @param mode whether events are made while the job runs or before
 * @param lingerMillis how long the table stays open after its last event
 */
record NexmarkSettings(
        long events,
        long rate,
        long seed,
        long startMillis,
        EventNumbers numbers,
        HotRatios hot,
        int inFlightAuctions,
        int activePeople,
        AverageSizes sizes,
        Mode mode,
        long lingerMillis)
        implements Serializable {

    static final ConfigOption<Long> EVENTS =
            option("events").longType().noDefaultValue().withDescription("How many events there are. Not set: they never end.");

    static final ConfigOption<Mode> MODE =
            option("mode").enumType(Mode.class).defaultValue(Mode.GENERATE).withDescription("When events are made.");

    static final ConfigOption<Long> RATE =
            option("rate").longType().defaultValue(10_000_000L).withDescription("Events per second of event time.");

    static final ConfigOption<Long> SEED =
            option("seed").longType().defaultValue(42L).withDescription("Other seeds give other events.");

    static final ConfigOption<String> START =
            option("start").stringType().defaultValue("2026-01-01 00:00:00").withDescription("Time of the first event.");

    static final ConfigOption<Duration> LINGER = option("linger")
            .durationType()
            .defaultValue(Duration.ZERO)
            .withDescription("How long the table stays open after its last event, for windows of processing time to end.");

    static final ConfigOption<Integer> PEOPLE = count("people.share", 1, "People in each round of events.");
    static final ConfigOption<Integer> AUCTIONS = count("auctions.share", 3, "Auctions in each round of events.");
    static final ConfigOption<Integer> BIDS = count("bids.share", 46, "Bids in each round of events.");

    static final ConfigOption<Integer> HOT_AUCTIONS =
            count("auctions.hot-ratio", 2, "All but one of so many bids are on the hot auction.");
    static final ConfigOption<Integer> HOT_SELLERS =
            count("sellers.hot-ratio", 4, "All but one of so many auctions are of the hot seller.");
    static final ConfigOption<Integer> HOT_BIDDERS =
            count("bidders.hot-ratio", 4, "All but one of so many bids are of the hot bidder.");

    static final ConfigOption<Integer> IN_FLIGHT = count("auctions.in-flight", 100, "The last auctions, on which people bid.");
    static final ConfigOption<Integer> ACTIVE = count("people.active", 1000, "The last people, who sell and bid.");

    static final ConfigOption<Integer> PERSON_BYTES = count("people.average-size", 200, "Bytes of a person.");
    static final ConfigOption<Integer> AUCTION_BYTES = count("auctions.average-size", 500, "Bytes of an auction.");
    static final ConfigOption<Integer> BID_BYTES = count("bids.average-size", 100, "Bytes of a bid.");

    /** Every option of the connector. */
    static final Set<ConfigOption<?>> OPTIONS = Set.of(
            EVENTS, MODE, RATE, SEED, START, LINGER, PEOPLE, AUCTIONS, BIDS, HOT_AUCTIONS, HOT_SELLERS, HOT_BIDDERS, IN_FLIGHT,
            ACTIVE, PERSON_BYTES, AUCTION_BYTES, BID_BYTES);

    private static final DateTimeFormatter START_FORMAT = DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss");
    private static final long MILLIS_PER_SECOND = 1000;

    /** When events are made. */
    enum Mode {
        /** One by one while the job runs, which may be what takes the time. */
        GENERATE,
        /** All before they are asked for, so that the time is the engine's. */
        REPLAY
    }

    /** All but one of so many choices fall on the hot one. */
    record HotRatios(int auctions, int sellers, int bidders) implements Serializable {}

    /** Bytes: 8 of a number or time, and the bytes of a text. */
    record AverageSizes(int person, int auction, int bid) implements Serializable {}

    NexmarkSettings {
        positive("events", events);
        positive("rate", rate);
        positive("auctions.hot-ratio", hot.auctions());
        positive("sellers.hot-ratio", hot.sellers());
        positive("bidders.hot-ratio", hot.bidders());
        positive("auctions.in-flight", inFlightAuctions);
        positive("people.active", activePeople);
        positive("average-size", Math.min(sizes.person(), Math.min(sizes.auction(), sizes.bid())));
        if (mode == Mode.REPLAY && events == Long.MAX_VALUE) {
            throw new IllegalArgumentException("Endless events cannot be replayed: set 'events'");
        }
    }

    static NexmarkSettings of(ReadableConfig options) {
        return new NexmarkSettings(
                options.getOptional(EVENTS).orElse(Long.MAX_VALUE),
                options.get(RATE),
                options.get(SEED),
                LocalDateTime.parse(options.get(START), START_FORMAT).toInstant(ZoneOffset.UTC).toEpochMilli(),
                new EventNumbers(options.get(PEOPLE), options.get(AUCTIONS), options.get(BIDS)),
                new HotRatios(options.get(HOT_AUCTIONS), options.get(HOT_SELLERS), options.get(HOT_BIDDERS)),
                options.get(IN_FLIGHT),
                options.get(ACTIVE),
                new AverageSizes(options.get(PERSON_BYTES), options.get(AUCTION_BYTES), options.get(BID_BYTES)),
                options.get(MODE),
                options.get(LINGER).toMillis());
    }

    boolean isEndless() {
        return events == Long.MAX_VALUE;
    }

    /** Time of an event, since the epoch. */
    long millis(long event) {
        // In two parts, as the product of all would not fit for long.
        return startMillis + event / rate * MILLIS_PER_SECOND + event % rate * MILLIS_PER_SECOND / rate;
    }

    /** The time in which as many auctions are opened as are in flight. */
    long flightMillis() {
        return (long) inFlightAuctions * numbers.round() * MILLIS_PER_SECOND / numbers.auctions() / rate;
    }

    private static ConfigOptions.OptionBuilder option(String key) {
        return ConfigOptions.key(key);
    }

    private static ConfigOption<Integer> count(String key, int standard, String description) {
        return option(key).intType().defaultValue(standard).withDescription(description);
    }

    private static void positive(String name, long value) {
        if (value < 1) {
            throw new IllegalArgumentException("Option '" + name + "' must be positive, it is " + value);
        }
    }
}
