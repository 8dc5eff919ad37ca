package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.SimpleCounter;
import org.apache.flink.runtime.io.network.partition.ResultPartitionID;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.types.logical.RowType;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/** Batches that are parked, and what becomes of them. */
class LocalEdgeTest extends NativeTestBase {

    private static final RowType TYPE = RowType.of(DataTypes.BIGINT().getLogicalType());
    private static final int TICKET_BYTES = 4096;

    private final ResultPartitionID partition = new ResultPartitionID();
    private final Counter parked = new SimpleCounter();
    private long handles;
    private long stage;

    @BeforeEach
    void open() {
        handles = Native.liveHandles();
        stage = Native.stageOpen(passing(TYPE), null, 1, 128, null);
    }

    @AfterEach
    void nothingIsLeftOpen() {
        Native.stageClose(stage);
        assertThat(Native.liveHandles()).isEqualTo(handles);
    }

    private LocalEdge.Sender sender(int consumers) {
        return new LocalEdge.Sender(partition, consumers, TICKET_BYTES, parked);
    }

    /** What a batch of one row is on the network. */
    private static byte[] written(LocalEdge.Sender sender, long value) throws IOException {
        final DataOutputSerializer out = new DataOutputSerializer(64);
        try (RowEntry entry = new RowEntry(EntryMemory.open(passing(TYPE), 1), TYPE, ReadFields.all(TYPE), 1)) {
            entry.write(GenericRowData.of(value));
            final long batch = entry.finish();
            NativeBatchSerializer.INSTANCE.serialize(NativeBatch.ofHandle(batch, 1, 7).over(sender), out);
            Native.batchRelease(batch);
        }
        return out.getCopyOfBuffer();
    }

    private long read(byte[] bytes) throws IOException {
        final DataInputDeserializer in = new DataInputDeserializer(bytes);
        final NativeBatch batch = NativeBatchSerializer.INSTANCE.deserialize(in);
        assertThat(in.available()).isZero();
        assertThat(batch.rows()).isEqualTo(1);
        assertThat(batch.keyGroup()).isEqualTo(7);
        batch.pushTo(stage, 0);
        final List<Long> values = new ArrayList<>();
        final long pulled = Native.stagePull(stage);
        BatchExit.emit(pulled, TYPE, row -> values.add(row.getLong(0)));
        Native.batchRelease(pulled);
        assertThat(values).hasSize(1);
        return values.get(0);
    }

    @Test
    void batchesAreParkedWhileAllConsumersAreThere() throws Exception {
        final LocalEdge.Sender sender = sender(2);
        final byte[] before = written(sender, 1);
        final AutoCloseable first = LocalEdge.consume("first", List.of(partition, new ResultPartitionID()));
        final byte[] oneMissing = written(sender, 2);
        assertThat(parked.getCount()).isZero();

        final AutoCloseable second = LocalEdge.consume("second", List.of(partition));
        final byte[] ticket = written(sender, 3);
        assertThat(parked.getCount()).isEqualTo(1);
        assertThat(ticket).hasSize(TICKET_BYTES);
        assertThat(List.of(read(before), read(oneMissing), read(ticket))).containsExactly(1L, 2L, 3L);

        first.close();
        assertThat(read(written(sender, 4))).isEqualTo(4);
        assertThat(parked.getCount()).isEqualTo(1);
        second.close();
    }

    @Test
    void whatWasParkedBeforeAConsumerLeftIsThereForTheOthers() throws Exception {
        final AutoCloseable first = LocalEdge.consume("first", List.of(partition));
        final AutoCloseable second = LocalEdge.consume("second", List.of(partition));
        final byte[] ticket = written(sender(2), 5);
        first.close();
        assertThat(read(ticket)).isEqualTo(5);
        second.close();
    }

    @Test
    void severalOperatorsOfATaskAreOneConsumer() throws Exception {
        final AutoCloseable head = LocalEdge.consume("first", List.of(partition));
        final AutoCloseable behind = LocalEdge.consume("first", List.of(partition));
        assertThat(read(written(sender(2), 1))).isEqualTo(1);
        assertThat(parked.getCount()).as("the other task may be elsewhere").isZero();
        final byte[] ticket = written(sender(1), 2);
        assertThat(parked.getCount()).isEqualTo(1);
        behind.close();
        assertThat(read(ticket)).isEqualTo(2);
        head.close();
    }

    @Test
    void whatNobodyClaimsIsReleasedWithTheLastConsumer() throws Exception {
        final AutoCloseable consumer = LocalEdge.consume("first", List.of(partition));
        final byte[] ticket = written(sender(1), 6);
        consumer.close();
        assertThatThrownBy(() -> read(ticket)).isInstanceOf(NativeException.class).hasMessageContaining("released");
    }

    @Test
    void aTicketIsGoodOnceAndInItsProcess() throws Exception {
        try (AutoCloseable consumer = LocalEdge.consume("first", List.of(partition))) {
            final byte[] ticket = written(sender(1), 7);
            final byte[] foreign = ticket.clone();
            foreign[12] ^= 1; // in the process
            assertThatThrownBy(() -> read(foreign)).hasMessageContaining("another process");
            assertThat(read(ticket)).isEqualTo(7);
            assertThatThrownBy(() -> read(ticket)).isInstanceOf(NativeException.class);
        }
    }

    @Test
    void onlySoMuchIsParked() throws Exception {
        try (AutoCloseable consumer = LocalEdge.consume("first", List.of(partition))) {
            final int rows = 1 << 18;
            final LocalEdge.Sender sender = sender(1);
            final List<LocalEdge.Ticket> tickets = new ArrayList<>();
            try (RowEntry entry =
                    new RowEntry(EntryMemory.open(passing(TYPE), rows), TYPE, ReadFields.all(TYPE), rows)) {
                for (long value = 0; value < rows; value++) {
                    entry.write(GenericRowData.of(value));
                }
                final long batch = entry.finish();
                for (LocalEdge.Ticket ticket = sender.park(batch); ticket != null; ticket = sender.park(batch)) {
                    tickets.add(ticket);
                }
                Native.batchRelease(batch);
            }
            assertThat((long) tickets.size()).isEqualTo(LocalEdge.MAX_PARKED_BYTES / (rows * Long.BYTES));
            assertThat(tickets)
                    .as("the network's buffers bound what waits")
                    .allSatisfy(ticket -> assertThat(ticket.recordBytes()).isEqualTo(rows * Long.BYTES / 4));
            assertThat(read(written(sender, 8))).as("travels encoded").isEqualTo(8);
            Native.batchRelease(LocalEdge.claim(LocalEdge.PROCESS, tickets.get(0).number()));
            assertThat(written(sender, 9)).as("there is room again").hasSize(TICKET_BYTES);
        }
    }
}
