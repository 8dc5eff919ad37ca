package org.apache.flink.streamfusion.runtime;

import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.runtime.state.AbstractKeyedStateBackend;
import org.apache.flink.runtime.state.FullSnapshotResources;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.KeyValueStateIterator;
import org.apache.flink.runtime.state.StreamCompressionDecorator;
import org.apache.flink.runtime.state.metainfo.StateMetaInfoSnapshot;
import org.apache.flink.util.IOUtils;
import org.apache.flink.util.ResourceGuard;

import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A snapshot of native state as Flink's writer of full snapshots reads it. Taken on the task thread; everything else happens on the
 * thread that writes, where the state is encoded key group by key group.
 */
final class NativeStateSnapshot implements FullSnapshotResources<Integer> {

    private final long snapshot;
    private final ResourceGuard.Lease database;
    private final KeyGroupRange keyGroups;
    private final int keyGroupCount;
    private final StreamCompressionDecorator compression;
    private final AtomicBoolean released = new AtomicBoolean();

    /** How many states for chunks the snapshot says that it has. */
    private int announcedChunks;

    private NativeStateSnapshot(
            long snapshot, AbstractKeyedStateBackend<Integer> backend, ResourceGuard.Lease database) {
        this.snapshot = snapshot;
        this.database = database;
        this.keyGroups = backend.getKeyGroupRange();
        this.keyGroupCount = backend.getNumberOfKeyGroups();
        this.compression = backend.getKeyGroupCompressionDecorator();
    }

    /**
     * Takes a snapshot of a stage. It must be released, whatever becomes of it. A lease keeps the database open that the state is in, and is
     * this snapshot's from now on; null if it is in memory.
     */
    static NativeStateSnapshot take(
            long stage, AbstractKeyedStateBackend<Integer> backend, ResourceGuard.Lease database) {
        try {
            return new NativeStateSnapshot(Native.stageSnapshot(stage), backend, database);
        } catch (Throwable e) {
            IOUtils.closeQuietly(database);
            throw e;
        }
    }

    @Override
    public List<StateMetaInfoSnapshot> getMetaInfoSnapshots() {
        announcedChunks = Native.snapshotChunks(snapshot);
        return ReservedStates.metaInfos(announcedChunks);
    }

    /** To be called behind {@link #getMetaInfoSnapshots()}, as they are written. */
    @Override
    public KeyValueStateIterator createKVStateIterator() {
        return new NativeStateIterator(snapshot, keyGroupCount, announcedChunks);
    }

    @Override
    public KeyGroupRange getKeyGroupRange() {
        return keyGroups;
    }

    @Override
    public TypeSerializer<Integer> getKeySerializer() {
        return KeyGroupSerializer.INSTANCE;
    }

    @Override
    public StreamCompressionDecorator getStreamCompressionDecorator() {
        return compression;
    }

    /** Frees the snapshot. Does nothing the second time. */
    @Override
    public void release() {
        if (released.compareAndSet(false, true)) {
            try {
                Native.snapshotRelease(snapshot);
            } finally {
                IOUtils.closeQuietly(database);
            }
        }
    }
}
