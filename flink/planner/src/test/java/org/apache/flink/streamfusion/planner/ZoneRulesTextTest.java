package org.apache.flink.streamfusion.planner;

import org.apache.flink.table.runtime.util.TimeWindowUtil;

import org.junit.jupiter.api.Test;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.ZoneId;
import java.time.zone.ZoneOffsetTransition;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TimeZone;
import java.util.stream.Collectors;

import static org.assertj.core.api.Assertions.assertThat;

/**
 * What Flink makes of time zones, as a file against which Rust is tested: per zone the rules that are handed over, the
 * transitions from 1900 to 2100, and check sums of Flink's functions around these transitions and for random times.
 */
class ZoneRulesTextTest {

    private static final Path EXPECTED = Path.of("../../crates/operators/tests/data/zones.txt");

    private static final List<String> ZONES =
            List.of(
                    "UTC",
                    "+05:30",
                    "GMT-08:00",
                    "Asia/Shanghai",
                    "Asia/Kolkata",
                    "Asia/Tehran",
                    "America/Los_Angeles",
                    "America/Sao_Paulo",
                    "Pacific/Apia",
                    "Pacific/Chatham",
                    "Australia/Lord_Howe",
                    "Europe/Lisbon",
                    "Europe/Dublin",
                    "Africa/Casablanca",
                    "Antarctica/Troll");

    @Test
    void flink_computes_what_rust_is_tested_against() throws Exception {
        final List<String> lines = new ArrayList<>();
        for (String zone : ZONES) {
            lines.addAll(expectation(ZoneId.of(zone)));
        }
        if (Boolean.getBoolean("streamfusion.write-expected")) {
            Files.write(EXPECTED, lines);
        }
        final List<String> expected = Files.readAllLines(EXPECTED);
        for (int i = 0; i < lines.size(); i += 4) {
            // another release of the time zone database has other rules
            if (expected.get(i).equals(lines.get(i))) {
                assertThat(expected.subList(i, i + 4)).isEqualTo(lines.subList(i, i + 4));
            }
        }
        // fixed offsets are in no database
        assertThat(expected.subList(0, 12)).isEqualTo(lines.subList(0, 12));
    }

    @Test
    void daylight_saving_time_is_what_transition_rules_say() {
        for (String id : ZoneId.getAvailableZoneIds()) {
            final ZoneId zone = ZoneId.of(id);
            assertThat(TimeZone.getTimeZone(zone).useDaylightTime())
                    .as(id)
                    .isEqualTo(!zone.getRules().getTransitionRules().isEmpty());
        }
    }

    private static List<String> expectation(ZoneId zone) {
        final List<Long> transitions = new ArrayList<>();
        final Sums near = new Sums(zone);
        final Instant end = Instant.parse("2100-01-01T00:00:00Z");
        ZoneOffsetTransition transition = zone.getRules().nextTransition(Instant.parse("1900-01-01T00:00:00Z"));
        while (transition != null && transition.getInstant().isBefore(end)) {
            transitions.add(transition.toEpochSecond());
            near.around(transition.toEpochSecond());
            transition = zone.getRules().nextTransition(transition.getInstant());
        }
        final Sums far = new Sums(zone);
        long random = 42;
        final long first = Instant.parse("0001-01-01T00:00:00Z").toEpochMilli();
        final long last = Instant.parse("9999-12-31T23:59:59.999Z").toEpochMilli();
        for (int i = 0; i < 20_000; i++) {
            random = random * 6_364_136_223_846_793_005L + 1_442_695_040_888_963_407L;
            final long millis = first + (random >>> 1) % (last - first);
            far.add(millis, millis);
        }
        return List.of(
                ZoneRulesText.of(zone),
                transitions.stream().map(String::valueOf).collect(Collectors.joining(",")),
                near.toString(),
                far.toString());
    }

    /** One sum per function. */
    private static final class Sums {

        private static final long START = 0xcbf29ce484222325L;

        private final ZoneId zone;
        private final boolean daylight;
        private final long[] sums = {START, START, START, START};

        Sums(ZoneId zone) {
            this.zone = zone;
            this.daylight = TimeZone.getTimeZone(zone).useDaylightTime();
        }

        void around(long transition) {
            final long local = TimeWindowUtil.toUtcTimestampMills(transition * 1_000 - 1, zone) + 1;
            for (int quarter = -14; quarter <= 14; quarter++) {
                for (int millis = -1; millis <= 1; millis++) {
                    final long distance = quarter * 900_000L + millis;
                    add(transition * 1_000 + distance, local + distance);
                }
            }
        }

        void add(long instant, long local) {
            final long progress = instant;
            mix(0, TimeWindowUtil.toUtcTimestampMills(instant, zone));
            mix(1, TimeWindowUtil.toEpochMillsForTimer(local, zone));
            mix(1, TimeWindowUtil.isWindowFired(local, progress, zone) ? 1 : 0);
            mix(2, TimeWindowUtil.toEpochMills(local, zone));
            mix(3, TimeWindowUtil.getNextTriggerWatermark(progress, 3_600_000, zone, daylight));
            mix(3, TimeWindowUtil.getNextTriggerWatermark(progress, 86_400_000, zone, daylight));
        }

        private void mix(int function, long value) {
            sums[function] = (sums[function] ^ value) * 0x100000001b3L;
        }

        @Override
        public String toString() {
            return Arrays.stream(sums).mapToObj(Long::toHexString).collect(Collectors.joining(","));
        }
    }
}
