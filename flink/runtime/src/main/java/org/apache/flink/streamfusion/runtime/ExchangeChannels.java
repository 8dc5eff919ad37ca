package org.apache.flink.streamfusion.runtime;

import org.apache.flink.runtime.io.network.api.writer.ResultPartitionWriter;
import org.apache.flink.runtime.jobgraph.IntermediateDataSetID;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.api.graph.NonChainedOutput;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * The subtasks behind an exchange, as the network of the running task has them.
 *
 * @param channels into how many parts a batch is split
 * @param maxParallelism the number of key groups
 */
record ExchangeChannels(int channels, int maxParallelism) {

    /** Where there is no exchange, or nothing is connected to it. */
    static final ExchangeChannels NONE =
            new ExchangeChannels(1, KeyGroupRangeAssignment.DEFAULT_LOWER_BOUND_MAX_PARALLELISM);

    static ExchangeChannels of(AbstractStreamOperator<?> operator) {
        return merge(writers(operator).stream().map(ExchangeChannels::of).collect(Collectors.toSet()));
    }

    /** What the operator sends to the network through, one for each exchange. */
    static List<ResultPartitionWriter> writers(AbstractStreamOperator<?> operator) {
        final ClassLoader classLoader = operator.getUserCodeClassloader();
        final Set<IntermediateDataSetID> own =
                operator.getOperatorConfig().getOperatorNonChainedOutputs(classLoader).stream()
                        .map(NonChainedOutput::getDataSetId)
                        .collect(Collectors.toSet());
        final List<NonChainedOutput> ofTask =
                operator.getContainingTask().getConfiguration().getVertexNonChainedOutputs(classLoader);
        final ResultPartitionWriter[] writers = operator.getContainingTask().getEnvironment().getAllWriters();
        final List<ResultPartitionWriter> result = new ArrayList<>();
        for (int i = 0; i < Math.min(ofTask.size(), writers.length); i++) {
            if (own.contains(ofTask.get(i).getDataSetId())) {
                result.add(writers[i]);
            }
        }
        return result;
    }

    private static ExchangeChannels of(ResultPartitionWriter writer) {
        final int keyGroups = writer.getNumTargetKeyGroups();
        return new ExchangeChannels(
                writer.getNumberOfSubpartitions(), keyGroups > 0 ? keyGroups : NONE.maxParallelism());
    }

    /** What fits every consumer. Split by key group, a batch fits any number of subtasks. */
    static ExchangeChannels merge(Collection<ExchangeChannels> consumers) {
        if (consumers.isEmpty()) {
            return NONE;
        }
        final Set<Integer> keyGroups =
                consumers.stream().map(ExchangeChannels::maxParallelism).collect(Collectors.toSet());
        if (keyGroups.size() > 1) {
            throw new IllegalStateException("The consumers of an exchange differ in maximum parallelism: " + keyGroups);
        }
        final int maxParallelism = keyGroups.iterator().next();
        final Set<Integer> channels =
                consumers.stream().map(ExchangeChannels::channels).collect(Collectors.toSet());
        return new ExchangeChannels(
                channels.size() == 1 ? Collections.max(channels) : maxParallelism, maxParallelism);
    }
}
