package org.apache.flink.streamfusion.nexmark;

import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonProcessingException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streamfusion.tests.BenchJvm;
import org.apache.flink.streamfusion.tests.Engine;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * The benchmark: every query, stock and native in turn, each in a fresh JVM.
 *
 * <p>Arguments are {@code KEY=value}, in any order; an empty value is the default.
 *
 * <ul>
 *   <li>{@code Q}: queries, as in {@code q5,q7}; all
 *   <li>{@code MODE}: {@code heap} or {@code rocksdb}, and mini-batch {@code off} or {@code on}; {@code heap,off}
 *   <li>{@code SOURCE}: {@code replay} or {@code generator}; replay
 *   <li>{@code EVENTS} per run; 1,000,000
 *   <li>{@code RATE}: events per second of event time; 10,000,000
 *   <li>{@code P}: parallelism; 1
 *   <li>{@code RUNS}: counted runs, of which the median is taken; 3
 *   <li>{@code HEAP}: of each JVM in MiB; 4096
 *   <li>{@code OPTIONS}: of Flink, as in {@code streamfusion.islands.weigh=false;pipeline.object-reuse=true}; none
 *   <li>{@code OUT}: a folder for JSON and SVG, which are named after what is not the default; none
 * </ul>
 *
 * <p>Ends with 1 if a query failed or had other results natively.
 */
public final class NexmarkBench {
    /** For all that a JVM does: a run of 20,000,000 events takes minutes. */
    private static final Duration LIMIT = Duration.ofMinutes(20);

    private static final ObjectMapper JSON = new ObjectMapper();

    private final Map<String, String> arguments = new HashMap<>();

    private NexmarkBench(String[] given) {
        for (String argument : given) {
            String[] parts = argument.split("=", 2);
            if (parts.length != 2) {
                throw new IllegalArgumentException("Not KEY=value: " + argument);
            }
            if (!parts[1].isEmpty()) {
                arguments.put(parts[0], parts[1]);
            }
        }
    }

    public static void main(String[] given) throws Exception {
        System.exit(new NexmarkBench(given).run() ? 0 : 1);
    }

    private boolean run() throws IOException, InterruptedException {
        String[] mode = argument("MODE", "heap,off").toUpperCase(Locale.ROOT).split(",");
        BenchSetup setup = new BenchSetup(
                BenchSetup.Backend.valueOf(mode[0]),
                BenchSetup.MiniBatch.valueOf(mode.length > 1 ? mode[1] : "OFF"),
                BenchSetup.Source.valueOf(argument("SOURCE", "replay").toUpperCase(Locale.ROOT)),
                Long.parseLong(argument("EVENTS", "1000000")),
                Long.parseLong(argument("RATE", "10000000")),
                Integer.parseInt(argument("P", "1")),
                Integer.parseInt(argument("RUNS", "3")),
                options());
        int heapMib = Integer.parseInt(argument("HEAP", "4096"));
        String names = argument("Q", String.join(",", NexmarkQuery.names()));
        System.out.println(BenchReport.title(setup, heapMib) + "\n");
        System.out.println(BenchReport.HEAD);
        List<BenchReport.Line> lines = new ArrayList<>();
        for (String name : names.split(",")) {
            BenchReport.Line line = new BenchReport.Line(
                    name, side(Engine.STOCK, name, setup, heapMib), side(Engine.NATIVE, name, setup, heapMib));
            lines.add(line);
            System.out.println(line.toMarkdown());
        }
        BenchReport report = new BenchReport(setup, heapMib, lines);
        System.out.println("\n" + report.summary());
        if (arguments.containsKey("OUT")) {
            report.write(Path.of(arguments.get("OUT")));
        }
        return report.isGood();
    }

    private Map<String, String> options() {
        Map<String, String> options = new HashMap<>();
        for (String option : argument("OPTIONS", "").split(";")) {
            if (!option.isEmpty()) {
                String[] parts = option.split("=", 2);
                options.put(parts[0], parts[1]);
            }
        }
        return options;
    }

    private String argument(String key, String standard) {
        return arguments.getOrDefault(key, standard);
    }

    /** Null if it failed, with the reason on the error output. */
    private static BenchSide.Measured side(Engine engine, String name, BenchSetup setup, int heapMib)
            throws InterruptedException, JsonProcessingException {
        String setupJson = JSON.writeValueAsString(setup);
        try {
            String result = BenchJvm.fork(BenchSide.class, heapMib, LIMIT, List.of(engine.name(), name, setupJson));
            return JSON.readValue(result, BenchSide.Measured.class);
        } catch (IOException e) {
            System.err.println(e.getMessage());
            return null;
        }
    }
}
