package org.apache.flink.streamfusion.runtime;

import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;
import org.apache.flink.runtime.state.AbstractKeyedStateBackend;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.state.rocksdb.RocksDBKeyedStateBackend;
import org.apache.flink.util.ResourceGuard;

import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksObject;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

import java.io.IOException;
import java.lang.reflect.Field;
import java.util.Map;

/**
 * A column family in the RocksDB of a keyed backend, in which the library keeps native state. It is that of an ordinary value state, so that
 * Flink makes it, checkpoints it, restores it and rescales it, by the key group in front of each key; its entries are the library's.
 *
 * <p>The backend gives nothing of this away, so its fields are read by name. A lease of its resource guard keeps it from closing the database
 * while the library works on it.
 */
final class RocksDbTable implements AutoCloseable {

    private static final Logger LOG = LoggerFactory.getLogger(RocksDbTable.class);

    /** Name of the value state, hence of the column family. It never changes. */
    static final String STATE = "__streamfusion_native_state_v4";

    private final ResourceGuard guard;
    private final ResourceGuard.Lease lease;

    private RocksDbTable(ResourceGuard guard, ResourceGuard.Lease lease) {
        this.guard = guard;
        this.lease = lease;
    }

    /**
     * Opens the column family for a stage, and keeps the stage's state there. Null if the stage keeps its state in memory, with a warning if
     * that is because the library cannot work on the backend's RocksDB.
     */
    static RocksDbTable open(String description, AbstractKeyedStateBackend<Integer> backend, long stage)
            throws Exception {
        final RocksDBKeyedStateBackend<Integer> host = (RocksDBKeyedStateBackend<Integer>) backend;
        final boolean restored = ((Map<?, ?>) field(host, "kvStateInformation")).containsKey(STATE);
        final RocksObject database = (RocksDB) field(host, "db");
        final String problem =
                Native.stageCanAttach(stage)
                        ? Native.databaseProblem(database.getNativeHandle())
                        : "it is always in memory";
        if (problem != null) {
            if (restored) {
                throw new NativeException(
                        description
                                + " has native state in RocksDB, from where it cannot be read: "
                                + problem
                                + ". Restore it where it was written.");
            }
            if (Native.stageCanAttach(stage)) {
                LOG.warn("{} keeps its state in memory, not in RocksDB: {}.", description, problem);
            }
            return null;
        }
        backend.getOrCreateKeyedState(
                VoidNamespaceSerializer.INSTANCE,
                new ValueStateDescriptor<>(STATE, BytePrimitiveArraySerializer.INSTANCE));
        final ResourceGuard guard = (ResourceGuard) field(host, "rocksDBResourceGuard");
        final ResourceGuard.Lease lease = guard.acquireResource();
        try {
            final Object info = ((Map<?, ?>) field(host, "kvStateInformation")).get(STATE);
            final RocksObject columnFamily =
                    (ColumnFamilyHandle) info.getClass().getField("columnFamilyHandle").get(info);
            final boolean attached =
                    Native.stageAttach(
                            stage,
                            database.getNativeHandle(),
                            columnFamily.getNativeHandle(),
                            host.getWriteOptions().getNativeHandle(),
                            host.getReadOptions().getNativeHandle());
            if (!attached) {
                throw new NativeException(description + " has state that stays in memory, though it should not");
            }
            return new RocksDbTable(guard, lease);
        } catch (Throwable e) {
            lease.close();
            throw e;
        }
    }

    private static Object field(RocksDBKeyedStateBackend<?> backend, String name) throws ReflectiveOperationException {
        final Field field = RocksDBKeyedStateBackend.class.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(backend);
    }

    /** Keeps the database open for a snapshot of the state, which may outlive the stage. */
    ResourceGuard.Lease lease() throws IOException {
        return guard.acquireResource();
    }

    /** The stage is closed: from now on the backend may close its database. */
    @Override
    public void close() {
        lease.close();
    }
}
