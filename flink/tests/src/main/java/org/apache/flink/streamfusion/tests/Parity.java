package org.apache.flink.streamfusion.tests;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.streamfusion.runtime.Native;
import org.apache.flink.streamfusion.runtime.NativeLibrary;
import org.apache.flink.streamfusion.tests.connector.Change;
import org.apache.flink.streamfusion.tests.connector.ParityValuesFactory.RowForm;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;

/**
 * Runs the same SQL over the same input on stock Flink and natively, and compares.
 *
 * <pre>{@code
 * Parity.of("SELECT k, SUM(v) FROM t GROUP BY k")
 *         .input("t", "k INT, v BIGINT", Row.of(1, 2L), Row.of(1, null))
 *         .run();
 * }</pre>
 *
 * <p>At parallelism 1 the changelogs of both engines are equal row for row, kinds included; at a higher parallelism, or
 * with {@link #finalTable()}, the tables that they leave are. The native run is repeated with different batch sizes,
 * row classes and {@linkplain KeptState places for its state}, none of which may change anything that they do not change on
 * stock Flink.
 *
 * <p>Everything but sources and sinks must run natively, except for what {@link #expectStock} names with its reason, so
 * that a test cannot pass by falling back. No native handle may be left open.
 *
 * <p>Watermarks go out behind each row that moves them on, and never because the clock says so: which rows are late would depend on
 * how fast a job runs. A test may set another interval, which should be so long that it does not pass while the job runs.
 */
public final class Parity {
    private static final Duration RELEASE_TIMEOUT = Duration.ofSeconds(10);

    private final List<String> statements;
    private final List<ParityInput> inputs = new ArrayList<>();
    private final List<ParitySink> sinks = new ArrayList<>();
    private final Set<String> keys = new LinkedHashSet<>();
    private final Map<String, String> options = new LinkedHashMap<>();
    private final Map<String, String> expectedStock = new LinkedHashMap<>();
    private List<String> expectedNative;
    private Set<String> expectedHosted;
    private Consumer<StreamTableEnvironment> setUp = environment -> {};
    private Consumer<StreamTableEnvironment> withInputs = environment -> {};
    private List<Variant> variants =
            List.of(
                    new Variant(1, RowForm.BINARY, KeptState.inTurn(0)),
                    new Variant(7, RowForm.MIXED, KeptState.inTurn(1)),
                    new Variant(8192, RowForm.GENERIC, KeptState.inTurn(2)));
    private int parallelism = 1;
    private boolean finalTable;
    private boolean perKey;
    private boolean statesChosen;
    private boolean lateRows;

    private Parity(List<String> statements) {
        this.statements = statements;
    }

    /** How the native run gets its input and keeps its state. */
    private record Variant(int batchMaxRows, RowForm form, KeptState state) {}

    /** DDL, at most one SELECT, and any number of INSERT INTO, which all run as one job. */
    public static Parity of(String... statements) {
        return new Parity(List.of(statements));
    }

    /** Adds an insert-only table; {@code columns} as in CREATE TABLE. */
    public Parity input(String name, String columns, Row... rows) {
        return input(name, columns, List.of(rows));
    }

    /** Adds an insert-only table; {@code columns} as in CREATE TABLE. */
    public Parity input(String name, String columns, Collection<Row> rows) {
        inputs.add(new ParityInput(name, columns, "+I", List.copyOf(rows)));
        return this;
    }

    /** Adds a table with a changelog of the given kinds, as in {@code "+I,-U,+U,-D"}. */
    public Parity changelog(String name, String columns, String kinds, Collection<Row> rows) {
        inputs.add(new ParityInput(name, columns, kinds, List.copyOf(rows)));
        return this;
    }

    /**
     * Adds an insert-only table whose rows come when the job has worked off all rows of another one: what operators with two inputs do with
     * them depends on nothing else then.
     */
    public Parity inputBehind(String other, String name, String columns, Collection<Row> rows) {
        inputs.add(new ParityInput(name, columns, "+I", List.copyOf(rows), other));
        return set("execution.checkpointing.interval", "1 h");
    }

    /** Adds a table for INSERT INTO that takes every row kind. */
    public Parity sink(String name, String columns) {
        sinks.add(new ParitySink(name, columns, ParitySink.ALL_KINDS));
        return this;
    }

    /** Adds a table for INSERT INTO that takes no {@code -U}; {@code columns} has a primary key. */
    public Parity upsertSink(String name, String columns) {
        sinks.add(new ParitySink(name, columns, ParitySink.UPSERT_KINDS));
        return this;
    }

    /** The rows of the SELECT go into a table with this primary key that takes no {@code -U}. */
    public Parity upsertBy(String... columns) {
        keys.addAll(List.of(columns));
        return this;
    }

    /** Sets an option on both engines. */
    public Parity set(String key, String value) {
        options.put(key, value);
        return this;
    }

    /** Prepares the environment of each run, to register functions for example. */
    public Parity setUp(Consumer<StreamTableEnvironment> action) {
        setUp = action;
        return this;
    }

    /** Prepares the environment of each run when the tables that it reads are there. */
    public Parity withInputs(Consumer<StreamTableEnvironment> action) {
        withInputs = action;
        return this;
    }

    /** Both engines must drop late rows, and count as many. */
    public Parity expectLateRows() {
        lateRows = true;
        return this;
    }

    public Parity parallelism(int value) {
        parallelism = value;
        return this;
    }

    /** Compares what the changelogs leave: for jobs whose order even stock Flink does not fix. */
    public Parity finalTable() {
        finalTable = true;
        return this;
    }

    /**
     * Compares the changes of each primary key of a sink one by one, whatever comes between them: Flink goes through the keys of a
     * bundle as a hash map does.
     */
    public Parity perKey() {
        perKey = true;
        return this;
    }

    /** Runs natively once per batch size, with rows of mixed classes. */
    public Parity batchSizes(int... sizes) {
        variants = new ArrayList<>();
        for (int size : sizes) {
            variants.add(new Variant(size, RowForm.MIXED, KeptState.inTurn(variants.size())));
        }
        return this;
    }

    /** Runs natively once per place for the state, with rows of mixed classes in batches of this size. */
    public Parity states(int batchSize, KeptState... places) {
        statesChosen = true;
        variants = new ArrayList<>();
        for (KeptState place : places) {
            variants.add(new Variant(batchSize, RowForm.MIXED, place));
        }
        return this;
    }

    /** The kinds of all native nodes, in the order of the plan. */
    public Parity expectNative(String... kinds) {
        expectedNative = List.of(kinds);
        return this;
    }

    /** A node that stays on Flink, with a part of the reason that EXPLAIN gives for it. */
    public Parity expectStock(String kind, String reason) {
        expectedStock.put(kind, reason);
        return this;
    }

    /** The names of all expressions that run in the JVM inside native nodes. */
    public Parity expectHosted(String... expressions) {
        expectedHosted = Set.of(expressions);
        return this;
    }

    /** Runs both engines and throws an {@link AssertionError} on the first difference. */
    public void run() throws Exception {
        requireLibrary();
        Map<ParitySink, List<Change>> expected = stock(variants.get(0));
        Map<String, Long> expectedLate = JobCounters.lateRows();
        if (lateRows && expectedLate.isEmpty()) {
            throw new AssertionError("Stock Flink drops no late rows in " + statements);
        }
        for (Variant variant : variants) {
            Map<ParitySink, List<Change>> natively;
            Map<String, Long> late;
            try (ParityJob job = job(Engine.NATIVE, variant)) {
                natively = job.execute();
                late = JobCounters.lateRows();
                checkPlan(job.executed());
            }
            try {
                compare(expected, natively, variant);
            } catch (AssertionError e) {
                if (variant.state() == variants.get(0).state()) {
                    throw e;
                }
                // Flink's own changelog may be another one where its state is another
                compare(stock(variant), natively, variant);
            }
            if (lateRows && !expectedLate.equals(late)) {
                throw new AssertionError("Late rows differ in %s with %s%n  stock:  %s%n  native: %s"
                        .formatted(statements, variant, expectedLate, late));
            }
            checkReleased();
        }
    }

    private Map<ParitySink, List<Change>> stock(Variant variant) throws Exception {
        try (ParityJob job = job(Engine.STOCK, variant)) {
            return job.execute();
        }
    }

    /** Runs both engines; both must fail, with the same class and message of the innermost exception. */
    public void runFailing() throws Exception {
        requireLibrary();
        Failure expected = fail(Engine.STOCK, variants.get(0));
        if (expected == null) {
            throw new AssertionError("Stock Flink does not fail on " + statements);
        }
        for (Variant variant : variants) {
            Failure actual = fail(Engine.NATIVE, variant);
            if (!expected.equals(actual)) {
                throw new AssertionError("Failures differ for %s with %s%n  stock:  %s%n  native: %s"
                        .formatted(statements, variant, expected, actual));
            }
            checkReleased();
        }
    }

    /** Which nodes would run natively; runs nothing. */
    public PlanReport explain() {
        requireLibrary();
        try (ParityJob job = job(Engine.NATIVE, variants.get(0))) {
            return job.explain();
        }
    }

    private Failure fail(Engine engine, Variant variant) {
        try (ParityJob job = job(engine, variant)) {
            Failure failure = null;
            try {
                job.execute();
            } catch (Exception e) {
                failure = Failure.of(e);
            }
            if (engine == Engine.NATIVE) {
                checkPlan(job.executed());
            }
            return failure;
        }
    }

    private ParityJob job(Engine engine, Variant variant) {
        Configuration configuration = new Configuration();
        engine.select(configuration);
        configuration.setString(Engine.BATCH_MAX_ROWS, Integer.toString(variant.batchMaxRows()));
        configuration.setString(Engine.ISLANDS_WEIGH, "false");
        // with batches of one size they are handed over in memory, with those of another they travel encoded
        configuration.setString(Engine.EXCHANGE_BY_HANDLE, Boolean.toString(variant.batchMaxRows() % 2 == 0));
        variant.state().select(configuration, statesChosen);
        configuration.setString("pipeline.auto-watermark-interval", "0 ms");
        options.forEach(configuration::setString);
        List<ParityInput> read =
                parallelism == 1 ? inputs : inputs.stream().map(ParityInput::withoutLateRows).toList();
        return new ParityJob(
                configuration,
                parallelism,
                new ParityJob.SetUp(setUp, withInputs),
                read,
                variant.form(),
                sinks,
                keys,
                statements);
    }

    private void compare(
            Map<ParitySink, List<Change>> expected, Map<ParitySink, List<Change>> actual, Variant variant) {
        boolean rowForRow = parallelism == 1 && !finalTable;
        expected.forEach((sink, changes) -> {
            List<Change> natively = actual.get(sink);
            String title = "%s of %s with %s".formatted(sink.name(), statements, variant);
            if (rowForRow) {
                Difference.check(title, inOrder(changes), inOrder(natively));
            } else {
                Difference.check(
                        title, sink.table().applyAll(changes).rows(), sink.table().applyAll(natively).rows());
            }
        });
    }

    private List<Change> inOrder(List<Change> changes) {
        // sorting is stable
        return perKey ? changes.stream().sorted(Comparator.comparing(Change::key)).toList() : changes;
    }

    private void checkPlan(PlanReport plan) {
        List<String> natively = plan.nativeNodes().stream().map(PlanReport.Node::kind).toList();
        if (natively.isEmpty()) {
            throw new AssertionError("Nothing runs natively:\n" + plan.decisions());
        }
        if (expectedNative != null && !expectedNative.equals(natively)) {
            throw new AssertionError(
                    "Native nodes are %s, expected %s:%n%s".formatted(natively, expectedNative, plan.decisions()));
        }
        Set<String> notSeen = new LinkedHashSet<>(expectedStock.keySet());
        for (PlanReport.Node node : plan.stockNodes()) {
            String reason = expectedStock.get(node.kind());
            if (reason == null && !node.isEndOfPlan()) {
                throw new AssertionError("%s does not run natively: %s%n%s"
                        .formatted(node.kind(), node.reasons(), plan.decisions()));
            }
            if (reason != null && node.reasons().stream().anyMatch(given -> given.contains(reason))) {
                notSeen.remove(node.kind());
            }
        }
        if (!notSeen.isEmpty()) {
            throw new AssertionError("No node stays on Flink as %s:%n%s".formatted(expectedStock, plan.decisions()));
        }
        if (expectedHosted != null && !expectedHosted.equals(Set.copyOf(plan.hostedExpressions()))) {
            throw new AssertionError("Expressions in the JVM are %s, expected %s:%n%s"
                    .formatted(plan.hostedExpressions(), expectedHosted, plan.decisions()));
        }
    }

    private static void requireLibrary() {
        if (!NativeLibrary.isAvailable()) {
            throw new AssertionError("The native library is not available");
        }
    }

    /** Tasks of a failed job close after its result is known, hence the patience. */
    static void checkReleased() throws InterruptedException {
        long deadline = System.nanoTime() + RELEASE_TIMEOUT.toNanos();
        while (Native.liveHandles() != 0) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError(Native.liveHandles() + " native handles are still open");
            }
            Thread.sleep(10);
        }
    }
}
