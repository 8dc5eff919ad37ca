package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.flink.table.data.GenericRowData;

import org.junit.jupiter.api.Test;

import java.util.Arrays;

/** The bytes of native state: what is damaged is refused. */
class NativeStateFormatTest extends NativeStateTestBase {

    private static final String STATE =
            "{\"operatorId\":\"counts\",\"maxParallelism\":128,\"firstKeyGroup\":0,\"lastKeyGroup\":127}";

    private interface Use<T> {
        T of(long handle) throws Exception;
    }

    /** Opens the stage of {@link GroupBy} without a task. */
    private static <T> T withStage(Use<T> use) throws Exception {
        final long stage = Native.stageOpen(groupBy().spec, null, 1, 128, STATE);
        try {
            return use.of(stage);
        } finally {
            Native.stageClose(stage);
        }
    }

    /** Takes a snapshot of a stage that knows all keys. */
    private static <T> T withSnapshot(Use<T> use) throws Exception {
        return withStage(
                stage -> {
                    final RowEntry entry =
                            new RowEntry(
                                    EntryMemory.open(groupBy().spec, KEYS),
                                    GroupBy.INPUT,
                                    ReadFields.all(GroupBy.INPUT),
                                    KEYS);
                    try (entry) {
                        for (long key = 0; key < KEYS; key++) {
                            entry.write(GenericRowData.of(key, key));
                        }
                        Native.stagePush(stage, 0, entry.finish());
                    }
                    for (long batch = Native.stagePull(stage); batch != 0; batch = Native.stagePull(stage)) {
                        Native.batchRelease(batch);
                    }
                    final long snapshot = Native.stageSnapshot(stage);
                    try {
                        return use.of(snapshot);
                    } finally {
                        Native.snapshotRelease(snapshot);
                    }
                });
    }

    /** Header and chunks of some key group. */
    private static byte[][] container(int keyGroup) throws Exception {
        return withSnapshot(
                snapshot -> {
                    assertThat(Native.snapshotKeyGroups(snapshot)).isSorted().contains(keyGroup);
                    final int chunks = Native.snapshotEncode(snapshot, keyGroup);
                    assertThat(chunks).isBetween(1, Native.snapshotChunks(snapshot));
                    final byte[][] container = new byte[1 + chunks][];
                    Arrays.setAll(container, state -> Native.snapshotPart(snapshot, keyGroup, state));
                    return container;
                });
    }

    @Test
    void onlyThePartsOfTheKeyGroupThatWasEncodedLastAreThere() throws Exception {
        withSnapshot(
                snapshot -> {
                    assertThatThrownBy(() -> Native.snapshotPart(snapshot, 7, 0)).isInstanceOf(NativeException.class);
                    final int chunks = Native.snapshotEncode(snapshot, 7);
                    assertThat(Native.snapshotPart(snapshot, 7, chunks)).isNotEmpty();
                    assertThatThrownBy(() -> Native.snapshotPart(snapshot, 7, chunks + 1)).isInstanceOf(NativeException.class);
                    assertThatThrownBy(() -> Native.snapshotPart(snapshot, 7, -1)).isInstanceOf(NativeException.class);
                    Native.snapshotEncode(snapshot, 8);
                    assertThatThrownBy(() -> Native.snapshotPart(snapshot, 7, 0)).isInstanceOf(NativeException.class);
                    assertThat(Native.snapshotPart(snapshot, 8, 0)).isNotEmpty();
                    return null;
                });
    }

    @Test
    void aSnapshotWithMoreChunksThanItAnnouncedFails() throws Exception {
        withSnapshot(
                snapshot -> {
                    final int first = Native.snapshotKeyGroups(snapshot)[0];
                    try (NativeStateIterator enough = new NativeStateIterator(snapshot, 128, 1)) {
                        assertThat(enough.keyGroup()).isEqualTo(first);
                    }
                    assertThatThrownBy(() -> new NativeStateIterator(snapshot, 128, 0))
                            .isInstanceOf(NativeException.class)
                            .hasMessage("The native state of key group %d has 1 chunks where at most 0 were announced", first);
                    return null;
                });
    }

    private static void restore(int keyGroup, byte[]... container) throws Exception {
        withStage(
                stage -> {
                    final byte[][] chunks = Arrays.copyOfRange(container, 1, container.length);
                    Native.stageRestore(stage, keyGroup, container[0], chunks);
                    return null;
                });
    }

    private static void assertRefused(int keyGroup, byte[]... container) {
        assertThatThrownBy(() -> restore(keyGroup, container))
                .isInstanceOf(NativeException.class)
                .hasMessageContaining("GroupAggregate(groupBy=[k])")
                .hasMessageContaining("native state of key group " + keyGroup)
                .hasMessageNotContaining("panicked");
    }

    @Test
    void everyFlippedByteOfAContainerIsRefused() throws Exception {
        final byte[][] container = container(7);
        restore(7, container);
        for (byte[] part : container) {
            for (int at = 0; at < part.length; at++) {
                part[at] ^= 1;
                assertRefused(7, container);
                part[at] ^= 1;
            }
        }
        restore(7, container);
    }

    @Test
    void chunksThatAreDroppedAddedSwappedOrCutAreRefused() throws Exception {
        final byte[] header = container(7)[0];
        final byte[] chunk = container(7)[1];
        final byte[][] other = container(8);
        assertRefused(7, header);
        assertRefused(7, header, chunk, chunk);
        assertRefused(7, header, other[1]);
        assertRefused(7, other[0], chunk);
        assertRefused(7, other[0], other[1]);
        assertRefused(7, new byte[0], chunk);
        assertRefused(7, header, Arrays.copyOf(chunk, chunk.length - 1));
        assertRefused(7, header, Arrays.copyOf(chunk, chunk.length + 1));
        for (int length = 0; length < header.length; length++) {
            assertRefused(7, Arrays.copyOf(header, length), chunk);
        }
    }

    @Test
    void aKeyGroupOfAnotherSubtaskIsRefused() throws Exception {
        final byte[][] container = container(7);
        final String state = STATE.replace("127", "6");
        final long stage = Native.stageOpen(groupBy().spec, null, 1, 128, state);
        assertThatThrownBy(() -> Native.stageRestore(stage, 7, container[0], new byte[][] {container[1]}))
                .hasMessageContaining("key group 7 does not belong to this subtask, whose key groups are 0 to 6");
        Native.stageClose(stage);
    }

    @Test
    void releasedSnapshotsAreErrors() throws Exception {
        withStage(
                stage -> {
                    final long snapshot = Native.stageSnapshot(stage);
                    Native.snapshotRelease(snapshot);
                    assertThatThrownBy(() -> Native.snapshotRelease(snapshot)).isInstanceOf(NativeException.class);
                    assertThatThrownBy(() -> Native.snapshotEncode(snapshot, 0)).isInstanceOf(NativeException.class);
                    assertThatThrownBy(() -> Native.snapshotKeyGroups(snapshot)).isInstanceOf(NativeException.class);
                    return null;
                });
    }

    @Test
    void theReservedStatesHaveTheirSpecifiedNames() {
        assertThat(Native.stateName(0)).isEqualTo("__streamfusion_canonical_native_state_v1");
        assertThat(Native.stateName(4)).isEqualTo("__streamfusion_canonical_native_state_v1_chunk_3");
    }
}
