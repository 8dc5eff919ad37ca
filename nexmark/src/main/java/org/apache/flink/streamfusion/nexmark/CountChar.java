package org.apache.flink.streamfusion.nexmark;

import org.apache.flink.table.functions.ScalarFunction;

/** Query 14's function: how often a character occurs in a text. */
public final class CountChar extends ScalarFunction {
    private static final long serialVersionUID = 1L;

    /** Occurrences of the first character of {@code character}; 0 if one of the two is null or there is no such character. */
    public long eval(String text, String character) {
        if (text == null || character == null || character.isEmpty()) {
            return 0;
        }
        char wanted = character.charAt(0);
        long count = 0;
        for (int i = 0; i < text.length(); i++) {
            if (text.charAt(i) == wanted) {
                count++;
            }
        }
        return count;
    }
}
