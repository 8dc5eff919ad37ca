package org.apache.flink.streamfusion.nexmark;

import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.types.DataType;

import java.nio.charset.StandardCharsets;

/**
 * Makes events: the row of an event depends on the settings and its number, and on nothing that was made before.
 *
 * <p>Hot are the last auction with a number that can be divided by 100, the last such person as a seller, and the person after that one
 * as a bidder: a hot bidder who is the hot seller too would bid on thousands of own auctions, and a join of the two have no end.
 */
final class EventGenerator {
    /** The physical columns of the table. */
    static final DataType TYPE = DataTypes.ROW(
            DataTypes.FIELD("event_type", DataTypes.INT()),
            DataTypes.FIELD(
                    "person",
                    DataTypes.ROW(
                            DataTypes.FIELD("id", DataTypes.BIGINT()),
                            DataTypes.FIELD("name", DataTypes.STRING()),
                            DataTypes.FIELD("emailAddress", DataTypes.STRING()),
                            DataTypes.FIELD("creditCard", DataTypes.STRING()),
                            DataTypes.FIELD("city", DataTypes.STRING()),
                            DataTypes.FIELD("state", DataTypes.STRING()),
                            DataTypes.FIELD("dateTime", DataTypes.TIMESTAMP(3)),
                            DataTypes.FIELD("extra", DataTypes.STRING()))),
            DataTypes.FIELD(
                    "auction",
                    DataTypes.ROW(
                            DataTypes.FIELD("id", DataTypes.BIGINT()),
                            DataTypes.FIELD("itemName", DataTypes.STRING()),
                            DataTypes.FIELD("description", DataTypes.STRING()),
                            DataTypes.FIELD("initialBid", DataTypes.BIGINT()),
                            DataTypes.FIELD("reserve", DataTypes.BIGINT()),
                            DataTypes.FIELD("dateTime", DataTypes.TIMESTAMP(3)),
                            DataTypes.FIELD("expires", DataTypes.TIMESTAMP(3)),
                            DataTypes.FIELD("seller", DataTypes.BIGINT()),
                            DataTypes.FIELD("category", DataTypes.BIGINT()),
                            DataTypes.FIELD("extra", DataTypes.STRING()))),
            DataTypes.FIELD(
                    "bid",
                    DataTypes.ROW(
                            DataTypes.FIELD("auction", DataTypes.BIGINT()),
                            DataTypes.FIELD("bidder", DataTypes.BIGINT()),
                            DataTypes.FIELD("price", DataTypes.BIGINT()),
                            DataTypes.FIELD("channel", DataTypes.STRING()),
                            DataTypes.FIELD("url", DataTypes.STRING()),
                            DataTypes.FIELD("dateTime", DataTypes.TIMESTAMP(3)),
                            DataTypes.FIELD("extra", DataTypes.STRING()))));

    /** Ids begin here, so that they are no numbers of events. */
    static final long FIRST_ID = 1000;

    private static final long FIRST_CATEGORY = 10;
    private static final int CATEGORIES = 5;
    private static final int HOT_EVERY = 100;
    private static final int MAGNITUDES = 6;
    private static final int MIN_PRICE = 100;

    private static final int NUMBER_BYTES = 8;
    private static final int CARD_GROUPS = 4;
    private static final int CARD_GROUP_VALUES = 10_000;
    private static final int ITEM_LETTERS = 20;
    private static final int DESCRIPTION_LETTERS = 100;
    private static final int MAILBOX_LETTERS = 7;
    private static final int HOST_LETTERS = 5;

    private static final String[] FIRST_NAMES = {
        "Ada", "Bela", "Carla", "Deniz", "Emil", "Fatou", "Goran", "Hana", "Ines", "Jonas", "Kaya", "Lena", "Milan", "Nora"
    };
    private static final String[] LAST_NAMES = {
        "Abbott", "Berg", "Costa", "Diallo", "Evans", "Fischer", "Garcia", "Huang", "Ito", "Jensen", "Kowalski", "Lopez"
    };
    private static final StringData[] CITIES = texts(
            "Boise", "Eugene", "Fresno", "Oakland", "Phoenix", "Portland", "Salem", "Seattle", "Spokane", "Tucson");
    private static final StringData[] STATES = texts("AZ", "CA", "ID", "NV", "OR", "WA");

    private final NexmarkSettings settings;
    private final EventNumbers numbers;
    private final EventRandom random;

    EventGenerator(NexmarkSettings settings) {
        this.settings = settings;
        this.numbers = settings.numbers();
        this.random = new EventRandom(settings.seed());
    }

    /** The row of an event, which is the caller's. */
    RowData event(long number) {
        random.start(number);
        EventNumbers.Kind kind = numbers.kind(number);
        TimestampData time = TimestampData.fromEpochMillis(settings.millis(number));
        GenericRowData row = new GenericRowData(4);
        row.setField(0, kind.ordinal());
        row.setField(
                1 + kind.ordinal(),
                switch (kind) {
                    case PERSON -> person(number, time);
                    case AUCTION -> auction(number, time);
                    case BID -> bid(number, time);
                });
        return row;
    }

    private GenericRowData person(long number, TimestampData time) {
        String name = any(FIRST_NAMES) + " " + any(LAST_NAMES);
        StringData email = email();
        StringData card = card();
        StringData city = any(CITIES);
        StringData state = any(STATES);
        int bytes = 2 * NUMBER_BYTES + name.length() + length(email) + length(card) + length(city) + length(state);
        return GenericRowData.of(
                FIRST_ID + numbers.lastPerson(number),
                StringData.fromBytes(name.getBytes(StandardCharsets.US_ASCII)),
                email,
                card,
                city,
                state,
                time,
                extra(settings.sizes().person(), bytes));
    }

    private GenericRowData auction(long number, TimestampData time) {
        long initialBid = price();
        long openMillis = 1 + random.below(Math.max(1, 2 * settings.flightMillis()));
        return GenericRowData.of(
                FIRST_ID + numbers.lastAuction(number),
                text(ITEM_LETTERS),
                text(DESCRIPTION_LETTERS),
                initialBid,
                initialBid + price(),
                time,
                TimestampData.fromEpochMillis(time.getMillisecond() + openMillis),
                FIRST_ID + seller(numbers.lastPerson(number)),
                FIRST_CATEGORY + random.below(CATEGORIES),
                extra(settings.sizes().auction(), 7 * NUMBER_BYTES + ITEM_LETTERS + DESCRIPTION_LETTERS));
    }

    private GenericRowData bid(long number, TimestampData time) {
        boolean wellKnown = random.isHot(2);
        int channel = (int) (wellKnown
                ? random.below(Channels.WELL_KNOWN)
                : Channels.WELL_KNOWN + random.below(Channels.NUMBERED));
        return GenericRowData.of(
                FIRST_ID + auctionToBidOn(numbers.lastAuction(number)),
                FIRST_ID + bidder(numbers.lastPerson(number)),
                price(),
                Channels.name(channel),
                Channels.url(channel),
                time,
                extra(settings.sizes().bid(), 4 * NUMBER_BYTES + Channels.bytes(channel)));
    }

    private long auctionToBidOn(long last) {
        return random.isHot(settings.hot().auctions()) ? lastHot(last) : oneOfTheLast(settings.inFlightAuctions(), last);
    }

    private long seller(long last) {
        return random.isHot(settings.hot().sellers()) ? lastHot(last) : oneOfTheLast(settings.activePeople(), last);
    }

    private long bidder(long last) {
        if (!random.isHot(settings.hot().bidders())) {
            return oneOfTheLast(settings.activePeople(), last);
        }
        return last == 0 ? 0 : lastHot(last - 1) + 1;
    }

    private static long lastHot(long last) {
        return last / HOT_EVERY * HOT_EVERY;
    }

    private long oneOfTheLast(int count, long last) {
        return last - random.below(Math.min(count, last + 1));
    }

    /** As many prices from 100 to 1,000 as from 1,000 to 10,000 and so on. */
    private long price() {
        return Math.round(Math.pow(10, MAGNITUDES * random.nextDouble()) * MIN_PRICE);
    }

    /** Letters up to a size around the average, at most a fifth from it. */
    private StringData extra(int averageBytes, int bytesBefore) {
        int deviation = averageBytes / 5;
        int size = averageBytes - deviation + (int) random.below(2L * deviation + 1);
        return text(Math.max(0, size - bytesBefore));
    }

    private StringData text(int letters) {
        byte[] text = new byte[letters];
        random.letters(text, 0, letters);
        return StringData.fromBytes(text);
    }

    private StringData email() {
        byte[] email = new byte[MAILBOX_LETTERS + 1 + HOST_LETTERS + 4];
        random.letters(email, 0, email.length);
        email[MAILBOX_LETTERS] = '@';
        byte[] end = {'.', 'c', 'o', 'm'};
        System.arraycopy(end, 0, email, email.length - end.length, end.length);
        return StringData.fromBytes(email);
    }

    private StringData card() {
        StringBuilder card = new StringBuilder();
        for (int group = 0; group < CARD_GROUPS; group++) {
            card.append(group == 0 ? "" : " ").append(Long.toString(CARD_GROUP_VALUES + random.below(CARD_GROUP_VALUES)), 1, 5);
        }
        return StringData.fromBytes(card.toString().getBytes(StandardCharsets.US_ASCII));
    }

    private <T> T any(T[] values) {
        return values[(int) random.below(values.length)];
    }

    private static int length(StringData text) {
        return text.toBytes().length;
    }

    private static StringData[] texts(String... texts) {
        StringData[] converted = new StringData[texts.length];
        for (int i = 0; i < texts.length; i++) {
            converted[i] = StringData.fromBytes(texts[i].getBytes(StandardCharsets.US_ASCII));
        }
        return converted;
    }
}
