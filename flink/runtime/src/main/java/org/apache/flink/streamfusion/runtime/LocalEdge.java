package org.apache.flink.streamfusion.runtime;

import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.metrics.Counter;
import org.apache.flink.runtime.execution.Environment;
import org.apache.flink.runtime.io.network.api.writer.ResultPartitionWriter;
import org.apache.flink.runtime.io.network.partition.ResultPartitionID;
import org.apache.flink.runtime.io.network.partition.consumer.IndexedInputGate;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;

/**
 * An exchange all of whose consumers are tasks of this process: its batches may travel by handle.
 *
 * <p>The batch is parked here and a ticket takes its place on Flink's network, in its order among all that travels there; who reads the ticket
 * claims the batch. Consumers make themselves known when they open. As long as one is missing, and as soon as one is gone, batches
 * travel encoded; so they do where too much is parked, and then Flink's network holds the sender back. What nobody
 * claimed, of a job that failed or was cancelled, is released with the last consumer.
 *
 * <p>Only for edges whose records no checkpoint stores.
 */
final class LocalEdge {

    /** What may be parked of one edge. */
    static final long MAX_PARKED_BYTES = 16 << 20;

    /**
     * The share of a batch's bytes that its ticket takes up on the network, whose buffers thereby bound what waits in front of a slow
     * consumer, and with it how long a barrier takes to get there. They are written and read for nothing, hence not all of them.
     */
    private static final int TICKET_SHARE = 4;

    /** Written in each ticket: one of another process is no batch here. */
    static final long PROCESS = ThreadLocalRandom.current().nextLong();

    private static final Map<ResultPartitionID, LocalEdge> EDGES = new ConcurrentHashMap<>();
    private static final Map<Long, Parked> PARKED = new ConcurrentHashMap<>();
    private static final AtomicLong NEXT_TICKET = new AtomicLong();

    private record Parked(LocalEdge edge, long handle, long bytes) {}

    /**
     * What takes the place of a batch on the network.
     *
     * @param number tells it apart in this process
     * @param recordBytes what it takes up there
     */
    record Ticket(long number, int recordBytes) {}

    private final ResultPartitionID partition;
    private final List<Long> tickets = new ArrayList<>();
    private long parkedBytes;
    /** The tasks that read the partition, each with how many of its operators said so. */
    private final Map<Object, Integer> consumers = new HashMap<>();

    private boolean consumerGone;

    private LocalEdge(ResultPartitionID partition) {
        this.partition = partition;
    }

    // ------------------------------------------------------------------------------------------------------- consumer

    /** Makes a task known as a consumer of all that it reads, until it closes what is returned. */
    static AutoCloseable consume(Environment task) {
        final List<ResultPartitionID> partitions = new ArrayList<>();
        for (IndexedInputGate gate : task.getAllInputGates()) {
            for (int channel = 0; channel < gate.getNumberOfInputChannels(); channel++) {
                partitions.add(gate.getChannel(channel).getPartitionId());
            }
        }
        return consume(task.getExecutionId(), partitions);
    }

    /** Makes a task known as a consumer of partitions; several operators of it are one consumer. */
    static AutoCloseable consume(Object task, List<ResultPartitionID> partitions) {
        final List<LocalEdge> consumed = partitions.stream().map(partition -> consume(task, partition)).toList();
        return () -> consumed.forEach(edge -> edge.leave(task));
    }

    private static LocalEdge consume(Object task, ResultPartitionID partition) {
        return EDGES.compute(
                partition,
                (id, known) -> {
                    final LocalEdge edge = known == null ? new LocalEdge(id) : known;
                    synchronized (edge) {
                        edge.consumers.merge(task, 1, Integer::sum);
                    }
                    return edge;
                });
    }

    private void leave(Object task) {
        EDGES.computeIfPresent(
                partition,
                (id, edge) -> {
                    synchronized (edge) {
                        edge.consumerGone = true;
                        edge.consumers.computeIfPresent(task, (of, operators) -> operators == 1 ? null : operators - 1);
                        if (!edge.consumers.isEmpty()) {
                            return edge;
                        }
                        edge.tickets.forEach(ticket -> Native.batchRelease(PARKED.remove(ticket).handle));
                        edge.tickets.clear();
                        return null;
                    }
                });
    }

    /** The handle of the batch behind a ticket, which is the caller's. */
    static long claim(long process, long ticket) {
        final Parked parked = process == PROCESS ? PARKED.get(ticket) : null;
        if (parked == null || !parked.edge.remove(ticket, parked)) {
            throw new NativeException("A batch arrived whose rows are in another process, or were released");
        }
        return parked.handle;
    }

    private synchronized boolean remove(long ticket, Parked parked) {
        if (!tickets.remove((Long) ticket)) {
            return false;
        }
        PARKED.remove(ticket);
        parkedBytes -= parked.bytes;
        return true;
    }

    // --------------------------------------------------------------------------------------------------------- sender

    /** What the sender of a partition knows of its edge. */
    static final class Sender {
        private final ResultPartitionID partition;
        private final int consumers;
        private final int bufferBytes;
        private final Counter parked;
        private LocalEdge edge;

        /**
         * @param consumers how many tasks read the partition
         * @param bufferBytes of a buffer of the network. A ticket takes up one at least, so that it is sent when it is written and not at the
         *     next flush
         * @param parked counts batches that were parked
         */
        Sender(ResultPartitionID partition, int consumers, int bufferBytes, Counter parked) {
            this.partition = partition;
            this.consumers = consumers;
            this.bufferBytes = bufferBytes;
            this.parked = parked;
        }

        static Sender of(ResultPartitionWriter writer, Environment task, Counter parked) {
            final MemorySize buffer =
                    task.getTaskManagerInfo().getConfiguration().get(TaskManagerOptions.MEMORY_SEGMENT_SIZE);
            return new Sender(
                    writer.getPartitionId(), writer.getNumberOfSubpartitions(), (int) buffer.getBytes(), parked);
        }

        /** Parks a second handle of a borrowed batch. Returns its ticket, or null if the batch must travel encoded. */
        Ticket park(long batch) {
            if (edge == null) {
                edge = EDGES.get(partition);
            }
            final Ticket ticket = edge == null ? null : edge.park(batch, consumers, bufferBytes);
            if (ticket != null) {
                parked.inc();
            }
            return ticket;
        }
    }

    private synchronized Ticket park(long batch, int allConsumers, int bufferBytes) {
        if (consumers.size() < allConsumers || consumerGone) {
            return null;
        }
        final long bytes = Native.batchBytes(batch);
        if (parkedBytes + bytes > MAX_PARKED_BYTES) {
            return null;
        }
        final long ticket = NEXT_TICKET.getAndIncrement();
        PARKED.put(ticket, new Parked(this, Native.batchRetain(batch), bytes));
        tickets.add(ticket);
        parkedBytes += bytes;
        return new Ticket(ticket, Math.max(bufferBytes, (int) (bytes / TICKET_SHARE)));
    }
}
