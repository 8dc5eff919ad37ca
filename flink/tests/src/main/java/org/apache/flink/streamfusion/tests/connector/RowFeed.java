package org.apache.flink.streamfusion.tests.connector;

import org.apache.flink.table.data.RowData;

import java.io.Serializable;
import java.util.concurrent.CompletableFuture;

/** A bounded sequence of rows that is the same whenever it is read. */
public interface RowFeed extends Serializable {

    /** Called once in the task, before any other method. */
    void open() throws Exception;

    /** Number of rows. */
    long size();

    /** The row at a position from 0 to {@code size() - 1}. The caller does not keep it. */
    RowData rowAt(long position);

    /** Complete when rows may go out. May be called before {@link #open}. */
    default CompletableFuture<Void> start() {
        return CompletableFuture.completedFuture(null);
    }

    /** Called when the last row has gone out. */
    default void ended() {}
}
