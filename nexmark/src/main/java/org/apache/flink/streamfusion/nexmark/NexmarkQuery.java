package org.apache.flink.streamfusion.nexmark;

import org.apache.flink.streamfusion.tests.SqlScript;
import org.apache.flink.table.api.StatementSet;
import org.apache.flink.table.api.TableEnvironment;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * A query of {@code queries/}: what must be created for it, its table of results included, and the INSERT INTO.
 *
 * @param name as in {@code q5}
 */
record NexmarkQuery(String name, List<String> preparation, String insert) {
    private static final int LAST = 23;
    /** Flink SQL cannot run it. */
    private static final int LEFT_OUT = 6;

    private static final Pattern INSERT = Pattern.compile("INSERT INTO \\w+\\s+(.*)", Pattern.DOTALL);
    private static final Pattern KEY = Pattern.compile("PRIMARY KEY \\((\\w+)\\)");
    private static final String NOWHERE = "'connector' = 'blackhole'";

    /** The names of all queries, in their order. */
    static List<String> names() {
        return IntStream.rangeClosed(0, LAST)
                .filter(number -> number != LEFT_OUT)
                .mapToObj(number -> "q" + number)
                .toList();
    }

    static NexmarkQuery named(String name) {
        return read(name, name);
    }

    /** The query in the form whose results can be compared, which is another one if they depend on the clock. */
    static NexmarkQuery toCompare(String name) {
        String check = name + ".check";
        return read(name, NexmarkQuery.class.getResource(path(check)) == null ? name : check);
    }

    private static NexmarkQuery read(String name, String file) {
        SqlScript script = SqlScript.parse(text(file));
        return new NexmarkQuery(name, script.preparation(), script.query());
    }

    /** The table of events and its views, with these options of the table. */
    static void createEvents(TableEnvironment environment, Map<String, String> options) {
        SqlScript script = SqlScript.parse(text("ddl"));
        script.preparation().forEach(environment::executeSql);
        environment.executeSql(script.query());
        if (!options.isEmpty()) {
            environment.executeSql("ALTER TABLE nexmark SET (" + inSql(options) + ")");
        }
    }

    /** The query without INSERT INTO. */
    String select() {
        Matcher matcher = INSERT.matcher(insert);
        if (!matcher.matches()) {
            throw new IllegalArgumentException("The last statement of " + name + " must be INSERT INTO a table");
        }
        return matcher.group(1);
    }

    /** The column by which results replace each other; null if they are all rows of their own. */
    String key() {
        return preparation.stream()
                .map(KEY::matcher)
                .filter(Matcher::find)
                .map(matcher -> matcher.group(1))
                .findFirst()
                .orElse(null);
    }

    /** Whether the results go to a table that throws them away. */
    boolean endsNowhere() {
        return preparation.stream().anyMatch(statement -> statement.contains(NOWHERE));
    }

    /** Creates what the query needs; its results are thrown away, or go where the query says. */
    StatementSet create(TableEnvironment environment) {
        preparation.forEach(environment::executeSql);
        return environment.createStatementSet().addInsertSql(insert);
    }

    /** Creates what the query needs; its table of results, which is named like the query, gets the options. */
    StatementSet create(TableEnvironment environment, Map<String, String> sinkOptions) {
        for (String statement : preparation) {
            environment.executeSql(statement.replace(NOWHERE, inSql(sinkOptions)));
        }
        if (!endsNowhere()) {
            environment.executeSql("ALTER TABLE " + name + " SET (" + inSql(sinkOptions) + ")");
        }
        return environment.createStatementSet().addInsertSql(insert);
    }

    private static String inSql(Map<String, String> options) {
        return options.entrySet().stream()
                .map(option -> "'" + option.getKey() + "' = '" + option.getValue() + "'")
                .collect(Collectors.joining(", "));
    }

    private static String text(String name) {
        try (InputStream file = NexmarkQuery.class.getResourceAsStream(path(name))) {
            if (file == null) {
                throw new IllegalArgumentException("There is no query " + name);
            }
            return new String(file.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static String path(String name) {
        return "/queries/" + name + ".sql";
    }
}
