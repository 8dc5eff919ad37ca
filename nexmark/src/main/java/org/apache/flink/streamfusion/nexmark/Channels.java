package org.apache.flink.streamfusion.nexmark;

import org.apache.flink.table.data.StringData;

import java.nio.charset.StandardCharsets;

/**
 * Through which channels bids come, and the url of each: four well-known ones and 10,000 with a number.
 *
 * <p>Nine of ten numbered channels say their number in the url.
 */
final class Channels {
    /** The well-known ones are the first. */
    static final int WELL_KNOWN = 4;

    static final int NUMBERED = 10_000;

    private static final String[] NAMES = {"Google", "Facebook", "Baidu", "Apple"};
    private static final int PATH_PARTS = 3;
    private static final int LETTERS_PER_PART = 3;
    private static final int WITHOUT_ID = 10;

    private static final StringData[] CHANNELS = new StringData[WELL_KNOWN + NUMBERED];
    private static final StringData[] URLS = new StringData[WELL_KNOWN + NUMBERED];
    private static final int[] BYTES = new int[WELL_KNOWN + NUMBERED];

    static {
        EventRandom random = new EventRandom(0);
        for (int i = 0; i < CHANNELS.length; i++) {
            random.start(i);
            int number = i - WELL_KNOWN;
            String channel = number < 0 ? NAMES[i] : "channel-" + number;
            String id = number >= 0 && random.below(WITHOUT_ID) > 0 ? "&channel_id=" + number : "";
            String url = "https://bid.test/" + path(random) + "/item?q=1" + id;
            CHANNELS[i] = StringData.fromBytes(channel.getBytes(StandardCharsets.US_ASCII));
            URLS[i] = StringData.fromBytes(url.getBytes(StandardCharsets.US_ASCII));
            BYTES[i] = channel.length() + url.length();
        }
    }

    private Channels() {}

    private static String path(EventRandom random) {
        byte[] path = new byte[PATH_PARTS * (LETTERS_PER_PART + 1) - 1];
        random.letters(path, 0, path.length);
        for (int slash = LETTERS_PER_PART; slash < path.length; slash += LETTERS_PER_PART + 1) {
            path[slash] = '/';
        }
        return new String(path, StandardCharsets.US_ASCII);
    }

    static StringData name(int channel) {
        return CHANNELS[channel];
    }

    static StringData url(int channel) {
        return URLS[channel];
    }

    /** Bytes of the name and the url. */
    static int bytes(int channel) {
        return BYTES[channel];
    }
}
