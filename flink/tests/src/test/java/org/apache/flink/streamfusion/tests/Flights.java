package org.apache.flink.streamfusion.tests;

import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import java.util.stream.Stream;

/**
 * Flights that left New York City in 2013, from the day before a snow storm on, as rows and as changelogs.
 *
 * <p>They come by day in the order in which they left, cancelled ones behind those of their day, so that the scheduled {@code time_hour} is out of order by
 * up to a day. In the storm every other flight was cancelled. Times, delays and now and then the plane are NULL then.
 */
final class Flights {
    /** DDL; {@code id} is the number of the row. */
    static final String COLUMNS = "id INT NOT NULL, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, "
            + "dep_delay INT, arr_delay INT, distance INT, time_hour TIMESTAMP(3)";

    /** DDL of a changelog with a row per plane. */
    static final String PLANES = COLUMNS + ", PRIMARY KEY (tailnum) NOT ENFORCED";

    static final String ALL_KINDS = "+I,-U,+U,-D";
    static final String UPSERTS = "+I,+U,-D";

    private static final String DIRECTORY = "streamfusion.test.data";
    private static final String FIRST_DAY = "2013,2,7,";
    private static final String BEHIND_THE_LAST_DAY = "2013,2,10,";
    private static final String UNKNOWN = "NA";
    private static final int PLANES_PER_TAKEN_ONE = 3;
    private static final int TAILNUM = 3;
    private static final int ORIGIN = 4;
    private static final int ARR_DELAY = 7;

    private Flights() {}

    /** The flights of three days, of a third of the planes. */
    static List<Row> rows() throws IOException {
        Path file = Path.of(System.getProperty(DIRECTORY, ""), "flights.csv");
        if (!Files.isReadable(file)) {
            throw new IllegalStateException(
                    "There is no %s: run 'make data', and name the directory that it prints with -Dstreamfusion.data=.."
                            .formatted(file.toAbsolutePath()));
        }
        List<Row> rows = new ArrayList<>();
        try (Stream<String> lines = Files.lines(file)) {
            lines.dropWhile(line -> !line.startsWith(FIRST_DAY))
                    .takeWhile(line -> !line.startsWith(BEHIND_THE_LAST_DAY))
                    .map(line -> line.split(","))
                    .filter(fields -> Math.floorMod(fields[11].hashCode(), PLANES_PER_TAKEN_ONE) == 0)
                    .forEach(fields -> rows.add(row(rows.size(), fields)));
        }
        if (rows.isEmpty()) {
            throw new IllegalStateException("%s has no flights of the days of the storm".formatted(file));
        }
        return rows;
    }

    private static Row row(int id, String[] fields) {
        return Row.of(
                id,
                fields[9],
                number(fields[10]),
                text(fields[11]),
                fields[12],
                fields[13],
                number(fields[5]),
                number(fields[8]),
                number(fields[15]),
                LocalDateTime.ofInstant(Instant.parse(fields[18]), ZoneOffset.UTC));
    }

    private static String text(String field) {
        return field.equals(UNKNOWN) ? null : field;
    }

    private static Integer number(String field) {
        return field.equals(UNKNOWN) ? null : Integer.valueOf(field);
    }

    /** Those whose plane is known. */
    static List<Row> withPlane(List<Row> flights) {
        return flights.stream().filter(flight -> flight.getField(TAILNUM) != null).toList();
    }

    /** Those that left from one of these airports. */
    static List<Row> from(List<Row> flights, String... origins) {
        return flights.stream().filter(flight -> List.of(origins).contains(flight.getFieldAs(ORIGIN))).toList();
    }

    /**
     * The last flight of each plane as a changelog with all kinds: a flight replaces the one before, and a plane whose flight did not arrive is
     * deleted.
     */
    static List<Row> planes(List<Row> flights) {
        Map<String, Row> last = new HashMap<>();
        Predicate<Row> arrived = flight -> flight.getField(ARR_DELAY) != null;
        List<Row> changelog = new ArrayList<>();
        for (Row flight : withPlane(flights)) {
            String plane = flight.getFieldAs(TAILNUM);
            Row before = arrived.test(flight) ? last.put(plane, flight) : last.remove(plane);
            if (!arrived.test(flight)) {
                if (before != null) {
                    changelog.add(of(RowKind.DELETE, before));
                }
            } else if (before == null) {
                changelog.add(of(RowKind.INSERT, flight));
            } else {
                changelog.add(of(RowKind.UPDATE_BEFORE, before));
                changelog.add(of(RowKind.UPDATE_AFTER, flight));
            }
        }
        return changelog;
    }

    /** The same as a source of upserts has it: each flight is a +U, or a -D of itself, whatever there was before. */
    static List<Row> upserts(List<Row> flights) {
        return withPlane(flights).stream()
                .map(flight -> of(flight.getField(ARR_DELAY) == null ? RowKind.DELETE : RowKind.UPDATE_AFTER, flight))
                .toList();
    }

    private static Row of(RowKind kind, Row row) {
        Row copy = Row.copy(row);
        copy.setKind(kind);
        return copy;
    }
}
