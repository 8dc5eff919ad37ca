package org.apache.flink.streamfusion.nexmark;

import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;

/** What a benchmark tells: a table for people, JSON for programs, and a chart. */
record BenchReport(BenchSetup setup, int heapMib, List<Line> lines) {
    static final String HEAD = "| query | stock s | native s | ratio | in CPU time | native / all nodes | equal | stock MiB | native MiB | on Flink |\n"
            + "| --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: | --- |";

    /**
     * A query on both engines.
     *
     * @param stock null if it failed
     * @param accelerated null if it failed
     */
    record Line(String query, BenchSide.Measured stock, BenchSide.Measured accelerated) {
        boolean isComplete() {
            return stock != null && accelerated != null;
        }

        boolean isEqual() {
            return isComplete() && stock.digest().equals(accelerated.digest());
        }

        double ratio() {
            return stock.medianSeconds() / accelerated.medianSeconds();
        }

        String toMarkdown() {
            if (!isComplete()) {
                return "| %s | %s | %s | | | | no | | | |"
                        .formatted(query, stock == null ? "failed" : "ran", accelerated == null ? "failed" : "ran");
            }
            return String.format(
                    Locale.ROOT,
                    "| %s | %.2f | %.2f | %.2f | %.2f | %d / %d | %s | %,d | %,d | %s |",
                    query,
                    stock.medianSeconds(),
                    accelerated.medianSeconds(),
                    ratio(),
                    stock.medianCpuSeconds() / accelerated.medianCpuSeconds(),
                    accelerated.nativeNodes(),
                    accelerated.nodes(),
                    isEqual() ? "yes" : "NO: " + stock.digest() + " and " + accelerated.digest(),
                    stock.residentMib(),
                    accelerated.residentMib(),
                    String.join(", ", accelerated.stockNodes()));
        }
    }

    static String title(BenchSetup setup, int heapMib) {
        return String.format(
                Locale.ROOT,
                "%,d events per run, %,d a second of event time, source %s, state %s, mini-batch %s, parallelism %d, heap %,d MiB, "
                        + "medians of %d runs%s",
                setup.events(),
                setup.rate(),
                name(setup.source()),
                name(setup.backend()),
                name(setup.miniBatch()),
                setup.parallelism(),
                heapMib,
                setup.runs(),
                setup.options().isEmpty() ? "" : ", " + setup.options());
    }

    private static String name(Enum<?> value) {
        return value.name().toLowerCase(Locale.ROOT);
    }

    /** Whether all queries ran on both engines with the same results. */
    boolean isGood() {
        return lines.stream().allMatch(Line::isEqual);
    }

    /** NaN if no query ran on both engines. */
    double geometricMean() {
        return Math.exp(lines.stream()
                .filter(Line::isComplete)
                .mapToDouble(line -> Math.log(line.ratio()))
                .average()
                .orElse(Double.NaN));
    }

    String summary() {
        long equal = lines.stream().filter(Line::isEqual).count();
        long slower = lines.stream().filter(line -> line.isComplete() && line.ratio() < 1).count();
        return String.format(
                Locale.ROOT,
                "geometric mean %.2f; %d of %d queries equal, %d slower than stock",
                geometricMean(), equal, lines.size(), slower);
    }

    /** Writes {@code nexmark-<mode>.json} and {@code .svg}. */
    void write(Path folder) throws IOException {
        Files.createDirectories(folder);
        String name = "nexmark-%s-%s-%s-p%d"
                .formatted(name(setup.backend()), name(setup.miniBatch()), name(setup.source()), setup.parallelism());
        Files.writeString(folder.resolve(name + ".json"), json());
        Files.writeString(folder.resolve(name + ".svg"), BenchChart.svg(this));
    }

    private String json() throws IOException {
        return new ObjectMapper().writerWithDefaultPrettyPrinter().writeValueAsString(new Content(setup, heapMib, geometricMean(), lines))
                + "\n";
    }

    private record Content(BenchSetup setup, int heapMib, double geometricMean, List<Line> queries) {}
}
