package org.apache.flink.streamfusion.tests;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A file of SQL statements: any number of SET and CREATE statements, then one SELECT or INSERT INTO.
 *
 * @param preparation everything before the query, in order
 * @param query the last statement
 */
public record SqlScript(List<String> preparation, String query) {
    private static final Pattern SET = Pattern.compile(
            "SET\\s+'([^']+)'\\s*=\\s*'([^']*)'", Pattern.CASE_INSENSITIVE | Pattern.DOTALL);

    /** An option that a SET statement sets. */
    record Setting(String key, String value) {}

    public static SqlScript parse(String text) {
        List<String> statements = split(text);
        if (statements.isEmpty()) {
            throw new IllegalArgumentException("The script has no statement");
        }
        int last = statements.size() - 1;
        return new SqlScript(List.copyOf(statements.subList(0, last)), statements.get(last));
    }

    /** The option that the statement sets, or null if it is no SET statement. */
    static Setting setting(String statement) {
        Matcher matcher = SET.matcher(statement.strip());
        return matcher.matches() ? new Setting(matcher.group(1), matcher.group(2)) : null;
    }

    /** Cuts at each semicolon outside quotes and comments; comments are dropped, except for hints. */
    static List<String> split(String text) {
        List<String> statements = new ArrayList<>();
        StringBuilder statement = new StringBuilder();
        int position = 0;
        while (position < text.length()) {
            int end = endOfToken(text, position);
            String token = text.substring(position, end);
            if (token.equals(";")) {
                addUnlessBlank(statements, statement);
            } else if (!isComment(token)) {
                statement.append(token);
            } else {
                statement.append(' ');
            }
            position = end;
        }
        addUnlessBlank(statements, statement);
        return statements;
    }

    private static void addUnlessBlank(List<String> statements, StringBuilder statement) {
        String stripped = statement.toString().strip();
        if (!stripped.isEmpty()) {
            statements.add(stripped);
        }
        statement.setLength(0);
    }

    private static boolean isComment(String token) {
        return token.startsWith("--") || token.startsWith("/*") && !token.startsWith("/*+");
    }

    /** A comment, a quoted text or a single character. */
    private static int endOfToken(String text, int start) {
        char first = text.charAt(start);
        if (first == '\'' || first == '`' || first == '"') {
            return endAfter(text, String.valueOf(first), start + 1);
        }
        if (text.startsWith("--", start)) {
            int newline = text.indexOf('\n', start);
            return newline < 0 ? text.length() : newline;
        }
        if (text.startsWith("/*", start)) {
            return endAfter(text, "*/", start + 2);
        }
        return start + 1;
    }

    private static int endAfter(String text, String closing, int from) {
        int found = text.indexOf(closing, from);
        return found < 0 ? text.length() : found + closing.length();
    }
}
