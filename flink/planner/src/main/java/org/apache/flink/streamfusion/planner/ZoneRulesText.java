package org.apache.flink.streamfusion.planner;

import org.apache.flink.table.api.config.TableConfigOptions;

import java.time.DateTimeException;
import java.time.Instant;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.zone.ZoneOffsetTransition;
import java.time.zone.ZoneOffsetTransitionRule;
import java.time.zone.ZoneRules;
import java.util.List;
import java.util.Optional;
import java.util.TimeZone;
import java.util.stream.Collectors;

/**
 * What this JVM knows of a time zone, as text for Rust.
 *
 * <p>Handed over instead of the name of the zone, because two time zone databases are rarely of one release.
 */
final class ZoneRulesText {

    /** Before what stands in the option, this is the option under which Rust finds the rules. */
    static final String OPTION_PREFIX = "streamfusion.time-zone.";

    private ZoneRulesText() {}

    /** The rules of the zone that an option names, unless Flink refuses it. */
    static Optional<String> ofOption(String zone) {
        if (TableConfigOptions.LOCAL_TIME_ZONE.defaultValue().equals(zone)) {
            return Optional.of(of(ZoneId.systemDefault()));
        }
        try {
            return Optional.of(of(ZoneId.of(zone)));
        } catch (DateTimeException e) {
            return Optional.empty();
        }
    }

    static String of(ZoneId zone) {
        final ZoneRules rules = zone.getRules();
        final List<ZoneOffsetTransition> transitions = rules.getTransitions();
        final ZoneOffset first =
                transitions.isEmpty()
                        ? rules.getOffset(Instant.EPOCH)
                        : transitions.get(0).getOffsetBefore();
        return String.join(
                "|",
                zone.getId(),
                TimeZone.getTimeZone(zone).useDaylightTime() ? "1" : "0",
                Integer.toString(first.getTotalSeconds()),
                transitions.stream().map(ZoneRulesText::transition).collect(Collectors.joining(";")),
                rules.getTransitionRules().stream().map(ZoneRulesText::rule).collect(Collectors.joining(";")));
    }

    private static String transition(ZoneOffsetTransition transition) {
        return transition.toEpochSecond() + "," + transition.getOffsetAfter().getTotalSeconds();
    }

    private static String rule(ZoneOffsetTransitionRule rule) {
        return rule.getMonth().getValue()
                + ","
                + rule.getDayOfMonthIndicator()
                + ","
                + (rule.getDayOfWeek() == null ? 0 : rule.getDayOfWeek().getValue())
                + ","
                + (rule.isMidnightEndOfDay() ? 86_400 : rule.getLocalTime().toSecondOfDay())
                + ","
                + base(rule).getTotalSeconds()
                + ","
                + rule.getOffsetBefore().getTotalSeconds()
                + ","
                + rule.getOffsetAfter().getTotalSeconds();
    }

    /** The offset in which the rule gives its time of the day. */
    private static ZoneOffset base(ZoneOffsetTransitionRule rule) {
        switch (rule.getTimeDefinition()) {
            case UTC:
                return ZoneOffset.UTC;
            case STANDARD:
                return rule.getStandardOffset();
            default:
                return rule.getOffsetBefore();
        }
    }
}
