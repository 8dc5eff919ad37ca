package org.apache.flink.streamfusion.nexmark;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.streamfusion.tests.BenchJvm;
import org.apache.flink.streamfusion.tests.Engine;
import org.apache.flink.streamfusion.tests.KeptState;
import org.apache.flink.streamfusion.tests.Parity;
import org.apache.flink.streamfusion.tests.PlanReport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

/** Every query gives natively what it gives on stock Flink, and runs as {@code nodes.txt} says. */
class NexmarkParityTest {
    /** 100 seconds of event time around midnight; short auctions, of which joins have many copies. */
    private static final Map<String, String> EVENTS = Map.of(
            "events", "20000", "rate", "200", "start", "2026-01-01 23:59:10", "auctions.average-size", "200");

    /** What a query needs for all of its rows to be seen. */
    private static final Map<String, Map<String, String>> OTHER_EVENTS =
            Map.of("q14", Map.of("rate", "1", "start", "2026-01-01 05:00:00"));

    private static final String STAYS = "!";

    /** Kinds of nodes that keep nothing of a row. */
    private static final Set<String> STATELESS =
            Set.of("Calc", "WatermarkAssigner", "MiniBatchAssigner", "Exchange", "LookupJoin");

    /** A line of {@code nodes.txt}. */
    record Case(String query, BenchSetup.MiniBatch miniBatch, List<String> nodes) {
        static Case parse(String line) {
            List<String> words = List.of(line.split(" "));
            return new Case(
                    words.get(0),
                    BenchSetup.MiniBatch.valueOf(words.get(1).toUpperCase(Locale.ROOT)),
                    words.subList(2, words.size()));
        }

        /** Whether the nodes that keep state are others than without mini-batch. */
        boolean isOfItsOwn() {
            return miniBatch == BenchSetup.MiniBatch.OFF || nodes.contains("GlobalGroupAggregate");
        }

        boolean keepsState() {
            return !STATELESS.containsAll(nodes);
        }

        /** Whether Flink defines the order of all changes: not that of two inputs, of a bundle, or of a window's results. */
        boolean hasOrder() {
            return miniBatch == BenchSetup.MiniBatch.OFF
                    && nodes.stream().noneMatch(node -> node.contains("Join") || node.contains("Window"));
        }
    }

    static List<Case> cases() throws IOException {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(
                NexmarkParityTest.class.getResourceAsStream("/nodes.txt"), StandardCharsets.UTF_8))) {
            return lines.lines().filter(line -> line.startsWith("q")).map(Case::parse).toList();
        }
    }

    /** Those of a mode; the other one is tested in a JVM of its own. */
    static List<Case> cases(BenchSetup.MiniBatch miniBatch) throws IOException {
        return cases().stream().filter(one -> one.miniBatch() == miniBatch).toList();
    }

    static List<Case> casesWithoutMiniBatch() throws IOException {
        return cases(BenchSetup.MiniBatch.OFF);
    }

    @ParameterizedTest
    @MethodSource("casesWithoutMiniBatch")
    void resultsAreThoseOfStockFlink(Case tested) throws Exception {
        check(tested);
    }

    static void check(Case tested) throws Exception {
        NexmarkQuery query = NexmarkQuery.toCompare(tested.query());
        List<String> statements = new ArrayList<>(query.preparation());
        statements.add(query.select());
        Map<String, String> events = new HashMap<>(EVENTS);
        events.putAll(OTHER_EVENTS.getOrDefault(tested.query(), Map.of()));
        List<String> natively = tested.nodes().stream().filter(node -> !node.startsWith(STAYS)).toList();
        Parity parity = Parity.of(statements.toArray(String[]::new))
                .setUp(environment -> NexmarkQuery.createEvents(environment, events))
                .expectNative(natively.toArray(String[]::new));
        tested.nodes().stream()
                .filter(node -> node.startsWith(STAYS))
                .forEach(node -> parity.expectStock(node.substring(STAYS.length()), ""));
        tested.miniBatch().options().forEach(parity::set);
        if (!tested.keepsState() && !tested.isOfItsOwn()) {
            // each of its nodes but the assigner of bundles has been run without mini-batch
            assertThat(parity.explain().nativeNodes()).extracting(PlanReport.Node::kind).isEqualTo(natively);
            return;
        }
        if (tested.keepsState() && tested.isOfItsOwn()) {
            parity.states(1000, KeptState.HEAP, KeptState.ROCKSDB_WITHOUT_CACHE);
        } else {
            parity.states(1000, KeptState.HEAP);
        }
        if (!tested.hasOrder()) {
            parity.finalTable();
        }
        if (query.key() != null) {
            parity.upsertBy(query.key());
        }
        parity.run();
    }

    @Test
    void everyQueryIsTestedInBothModes() throws IOException {
        Set<String> tested = new HashSet<>();
        cases().forEach(one -> tested.add(one.query() + one.miniBatch()));
        assertThat(tested).hasSize(2 * NexmarkQuery.names().size());
    }

    @Test
    void filesOfQueryTenAreThoseOfStockFlink() throws Exception {
        Digest stock = filesOfQueryTen(Engine.STOCK);
        assertThat(stock.rows()).isEqualTo(46 * 20000 / 50);
        assertThat(filesOfQueryTen(Engine.NATIVE)).isEqualTo(stock);
    }

    private static Digest filesOfQueryTen(Engine engine) throws Exception {
        BenchSetup setup = new BenchSetup(
                BenchSetup.Backend.HEAP, BenchSetup.MiniBatch.OFF, BenchSetup.Source.GENERATOR, 20000, 200, 1, 1,
                Map.of(Engine.ISLANDS_WEIGH, "false"));
        Path folder = Files.createTempDirectory("q10");
        try {
            NexmarkQuery.named("q10")
                    .create(setup.environment(engine), Map.of("path", folder.toUri().toString()))
                    .execute()
                    .await();
            assertThat(folder.resolve("dt=2026-01-01")).isDirectoryContaining("glob:**hm=00%3A00").isDirectoryContaining("glob:**hm=00%3A01");
            return BenchSide.ofFiles(folder);
        } finally {
            BenchJvm.delete(folder);
        }
    }
}
