package org.apache.flink.streamfusion.tests;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streamfusion.tests.RecoveryQueries.Query;
import org.apache.flink.streamfusion.tests.connector.Trial;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** The state of every operator moves from one state backend to the other and back, by canonical savepoints. */
@RequiresNative
@Timeout(120)
class StateBackendMoveTest extends RecoveryTestBase {
    private static final Map<String, String> BUNDLES = Map.of(
            "table.exec.mini-batch.enabled", "true",
            "table.exec.mini-batch.size", "1000",
            "table.exec.mini-batch.allow-latency", "1 h",
            "table.optimizer.agg-phase-strategy", "TWO_PHASE");
    private static final Map<String, String> SPLIT_DISTINCT = Map.of(
            "table.exec.mini-batch.enabled", "true",
            "table.exec.mini-batch.size", "1000",
            "table.exec.mini-batch.allow-latency", "1 h",
            "table.optimizer.agg-phase-strategy", "TWO_PHASE",
            "table.optimizer.distinct-agg.split.enabled", "true");
    private static final Map<String, String> ONE_PHASE = Map.of("table.optimizer.agg-phase-strategy", "ONE_PHASE");

    static List<Query> everyKindOfState() {
        return List.of(
                RecoveryQueries.COUNTS,
                RecoveryQueries.COUNTS.keptBy("GlobalGroupAggregate").with(BUNDLES),
                RecoveryQueries.COUNTS.keptBy("IncrementalGroupAggregate").with(SPLIT_DISTINCT),
                RecoveryQueries.JOINED,
                RecoveryQueries.HIGHEST,
                RecoveryQueries.BEHIND,
                RecoveryQueries.HIGHEST_OF_ALL,
                RecoveryQueries.SOME,
                RecoveryQueries.WINDOWS,
                RecoveryQueries.WINDOWS.keptBy("WindowAggregate").with(ONE_PHASE),
                RecoveryQueries.GROUP_WINDOWS,
                RecoveryQueries.SESSIONS,
                RecoveryQueries.SESSIONS_OF_ROWS,
                RecoveryQueries.IN_ONE_WINDOW,
                RecoveryQueries.HIGHEST_IN_WINDOWS,
                RecoveryQueries.LAST_IN_WINDOWS,
                RecoveryQueries.RUNNING,
                RecoveryQueries.RUNNING_BACKWARDS,
                RecoveryQueries.NEIGHBOURS,
                RecoveryQueries.VERSIONS,
                RecoveryQueries.SORTED,
                RecoveryQueries.FIRST_BY_ARRIVAL,
                RecoveryQueries.LAST_BY_ARRIVAL,
                RecoveryQueries.FIRST_BY_TIME,
                RecoveryQueries.LAST_BY_TIME,
                RecoveryQueries.LAST_UPSERTS);
    }

    /** To another parallelism on the way. */
    @ParameterizedTest
    @MethodSource("everyKindOfState")
    void stateMovesFromTheHeapToRocksDbAndBack(Query query) throws Exception {
        try (Job job = new Job(query, Trial.waiting(2))) {
            JobClient first = job.submit(configuration("hashmap"), 2);
            job.trial.awaitHalf();
            String fromHeap = stopWithSavepoint(first, SavepointFormatType.CANONICAL);
            await(first);
            JobClient second = job.submit(restoredFrom(fromHeap, configuration("rocksdb")), 3);
            String fromRocksDb = stopWithSavepoint(second, SavepointFormatType.CANONICAL);
            await(second);
            job.trial.release();
            await(job.submit(restoredFrom(fromRocksDb, configuration("hashmap")), 2));
            assertResult(query);
        }
    }

    private static final Path CAPABILITIES = Path.of("../../crates/engine/src/capabilities.rs");
    /** What is decided about one kind of node, or about several at once. */
    private static final Pattern DECISION =
            Pattern.compile("^            NodeKind::.*?(?=^            NodeKind::|^        }$)", Pattern.MULTILINE | Pattern.DOTALL);
    private static final Pattern STATEFUL = Pattern.compile("stateful: (?!false)");
    private static final Pattern KIND = Pattern.compile("NodeKind::(\\w+)");

    /** So that nobody forgets the case of a new operator. */
    @Test
    void everyOperatorWithStateIsAmongThem() throws Exception {
        Set<String> stateful = DECISION.matcher(Files.readString(CAPABILITIES))
                .results()
                .map(MatchResult::group)
                .filter(decision -> STATEFUL.matcher(decision).find())
                .flatMap(decision -> KIND.matcher(decision.substring(0, decision.indexOf("=>"))).results())
                .map(kind -> kind.group(1))
                .collect(Collectors.toCollection(TreeSet::new));
        assertThat(stateful).contains("GroupAggregate", "WindowJoin").doesNotContain("Calc");
        assertThat(everyKindOfState()).extracting(Query::operator).containsAll(stateful);
    }
}
