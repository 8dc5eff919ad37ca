package org.apache.flink.streamfusion.nexmark;

import java.util.HashMap;
import java.util.Map;

/**
 * The final table behind a changelog, as a few numbers: the sum of the hashes of all rows, those of removed rows subtracted.
 *
 * <p>It does not depend on the order of changes, nor on how often a row came and went. Two different tables have one digest with a
 * chance of 1 in 2^64, as long as nobody looks for such tables.
 *
 * @param rows rows in the table
 * @param sum of hashes
 */
record Digest(long rows, long sum) {
    static final Digest EMPTY = new Digest(0, 0);

    private static final Map<String, Digest> COLLECTED = new HashMap<>();

    /** Adds what one writer has seen. */
    static synchronized void collect(String id, Digest part) {
        COLLECTED.merge(id, part, Digest::plus);
    }

    /** What all writers of a job have seen, which is forgotten here. */
    static synchronized Digest take(String id) {
        Digest collected = COLLECTED.remove(id);
        return collected == null ? EMPTY : collected;
    }

    Digest plus(Digest other) {
        return new Digest(rows + other.rows, sum + other.sum);
    }

    /** With a row that comes (1) or goes (-1). */
    Digest plus(long step, String row) {
        return new Digest(rows + step, sum + step * hash(row));
    }

    /** FNV-1a over the code units, with a finish that spreads the last ones over all bits. */
    private static long hash(String text) {
        long hash = 0xcbf29ce484222325L;
        for (int i = 0; i < text.length(); i++) {
            hash = (hash ^ text.charAt(i)) * 0x100000001b3L;
        }
        hash = (hash ^ hash >>> 32) * 0xd6e8feb86659fd93L;
        return hash ^ hash >>> 32;
    }

    @Override
    public String toString() {
        return "%d rows, %016x".formatted(rows, sum);
    }
}
