package org.apache.flink.streamfusion.runtime;

import java.nio.ByteBuffer;

/**
 * Every native method there is. What they mean is written once, in {@code docs/design/boundary.md}.
 *
 * <p>Handles are opaque numbers; a released or unknown one throws. A method that takes an address array fills it. Call
 * {@link NativeLibrary#isAvailable()} first: without the library each call throws {@link UnsatisfiedLinkError}.
 */
public final class Native {

    private Native() {}

    /** The version of the library, which must equal {@link NativeLibrary#VERSION}. */
    public static native String version();

    /** Decides which nodes of a plan run natively. JSON in, JSON out; throws if the request is no JSON. */
    public static native String plan(String request);

    // ------------------------------------------------------------------------------------------------------- entry

    /** Opens the buffers that {@code capacityRows} rows of an input are written into. */
    static native long entryOpen(String spec, int input, int capacityRows);

    /** Fills in three addresses per column and the address of the row kinds. */
    static native void entryAddresses(long entry, long[] addresses);

    /** The number of columns in the column tree. */
    static native int entryColumns(long entry);

    /** Makes the data buffer of a column at least {@code bytes} large; returns its new address. */
    static native long entryReserve(long entry, int column, long bytes);

    /** Moves the rows out as a batch that the caller owns; fills in the addresses for the next rows. */
    static native long entryFinish(long entry, int rows, boolean hasKinds, long[] addresses);

    /** Makes the buffer of binary rows at least that large and keeps its contents. Returns its new address. */
    static native long entryReserveBinaryRows(long entry, long bytes);

    /** Returns the binary rows as a batch. No address changes. */
    static native long entryFinishBinaryRows(long entry, int rows);

    static native void entryClose(long entry);

    // ------------------------------------------------------------------------------------------------------- stage

    /**
     * Opens a stage. {@code hosts} is called on the thread that pushes, or is null if the stage has no hosts. {@code state} says
     * in JSON whose state it keeps and for which keys, or is null if it keeps none.
     */
    static native long stageOpen(String spec, HostCalls hosts, int channels, int maxParallelism, String state);

    /** Takes the batch over, also if it fails. */
    static native void stagePush(long stage, int input, long batch);

    static native void stagePushEncoded(long stage, int input, byte[] bytes, int offset, int length);

    /** What {@link #stagePull} returns when a watermark comes next. */
    static final long WATERMARK = -1;

    /** What {@link #stagePull} returns when watermarks become idle next. */
    static final long IDLE = -2;

    /** What {@link #stagePull} returns when watermarks become active next. */
    static final long ACTIVE = -3;

    /** The next output batch, owned by the caller, or {@link #WATERMARK} or a status of them, or 0 if there is nothing left. */
    static native long stagePull(long stage);

    /** The watermark that was pulled; can be asked for once. */
    static native long stagePulledWatermark(long stage);

    /** The counters of the stage as a JSON object. */
    static native String stageMetrics(long stage);

    static native void stageClose(long stage);

    // ------------------------------------------------------------------------------------- between a stage's batches

    /** Why bundles end, for {@link #stageFlushBundles}: a watermark of any input. */
    static final int FLUSH_WATERMARK = 0;

    /** Why bundles end: a checkpoint barrier is about to pass. */
    static final int FLUSH_CHECKPOINT = 1;

    /** Why bundles end: the input is over. */
    static final int FLUSH_END_OF_INPUT = 2;

    /** What {@link #stageTimer} returns when there is no timer. */
    static final long NO_TIMER = Long.MIN_VALUE;

    /** Lets the rows go that wait for more and ends bundles behind them; what comes of it is to be pulled. */
    static native void stageFlushBundles(long stage, int reason);

    /** Lets the rows go that wait for more, ends bundles and takes the watermark; what comes of it is to be pulled. */
    static native void stageWatermark(long stage, long watermarkMs);

    /** Lets the rows go that wait for more and takes the status of watermarks; what comes of it is to be pulled. */
    static native void stageStatus(long stage, boolean idle);

    /** Whether watermarks of the second input count for nothing, as if its last one had come. */
    static native boolean stageIgnoresSecondWatermarks(long stage);

    /** Says before the first batch what {@code pipeline.auto-watermark-interval} is. */
    static native void stageAutoWatermarkInterval(long stage, long intervalMs);

    /**
     * Tells the processing time, and how long the task has worked or waited for input. Returns whether there may be something to
     * pull.
     */
    static native boolean stageTime(long stage, long nowMs, long activityMs);

    /** When {@link #stageTime} is to be called, or {@link #NO_TIMER}: a stage that has none when it is opened never has one. */
    static native long stageTimer(long stage);

    /** What {@link #stageProgress} returns when the stage is opened and no operator of it remembers how far event time has come. */
    static final long NO_PROGRESS = Long.MAX_VALUE;

    /** How far event time has come. Between batches only. */
    static native long stageProgress(long stage);

    /** Takes over the progress of a snapshot, before the first batch. */
    static native void stageRestoreProgress(long stage, long watermarkMs);

    /**
     * Rows that were dropped so far: late ones, late ones of the left and of the right input, and those without a row time; -1 where
     * no operator drops rows for that reason.
     */
    static native long[] stageDroppedRows(long stage);

    // ---------------------------------------------------------------------------------------- in front of a stage

    /** Says before the first batch how batches travel to and from the stage. */
    static native void stageShuffle(long stage, String parameters);

    /** Lets the rows go that wait for more; what comes of them is to be pulled. */
    static native void stageFlush(long stage);

    /** The number of rows that wait for more, of all inputs. */
    static native int stageWaitingRows(long stage);

    /** Whether a fragment of an input misses siblings. */
    static native boolean stageIsPending(long stage, int input);

    /** The key groups of an input's fragments that miss siblings, ascending. */
    static native int[] stagePendingKeyGroups(long stage, int input);

    static native byte[] stageSnapshotPending(long stage, int input, int keyGroup);

    /** Gives fragments of a snapshot back before the first batch; what comes of them is to be pulled. */
    static native void stageRestorePending(long stage, int input, int keyGroup, byte[] bytes);

    // ------------------------------------------------------------------------------------------------------- state

    /** The name of the keyed state that holds headers (0) or chunk n (n + 1) in snapshots. */
    static native String stateName(int state);

    /** The state of the stage as it is now, owned by the caller, or 0 if the stage keeps none. */
    static native long stageSnapshot(long stage);

    /** The key groups that have state, ascending. */
    static native int[] snapshotKeyGroups(long snapshot);

    /** No key group has more chunks than this. */
    static native int snapshotChunks(long snapshot);

    /** Encodes a key group and keeps it in the place of the one before. Returns the number of its chunks. */
    static native int snapshotEncode(long snapshot, int keyGroup);

    /** Of the key group that was encoded last, the header (0) or chunk n (n + 1). */
    static native byte[] snapshotPart(long snapshot, int keyGroup, int state);

    static native void snapshotRelease(long snapshot);

    /** Takes over the state of a key group, before the first batch. */
    static native void stageRestore(long stage, int keyGroup, byte[] header, byte[][] chunks);

    /** Why the library cannot work on this RocksDB, of which this is the native handle; null if it can. */
    static native String databaseProblem(long database);

    /** Whether the stage has state that may be kept in a database. */
    static native boolean stageCanAttach(long stage);

    /** Keeps the state of the stage in a column family from now on; false if it stays in memory. All are native handles. */
    static native boolean stageAttach(
            long stage, long database, long columnFamily, long writeOptions, long readOptions);

    /** Writes what the state has changed to its database. */
    static native void stageWriteBack(long stage);

    /** Lets part of the state leave memory that is kept in a database. */
    static native void stageEvict(long stage);

    /** Bytes that the state takes now, and the most it took when this was called. */
    static native long[] stageMemory(long stage);

    // ------------------------------------------------------------------------------------------------------- batch

    static native int batchRows(long batch);

    /** The key group that stands for all rows of the batch, or -1. */
    static native int batchKeyGroup(long batch);

    /** A second handle to the same batch. */
    static native long batchRetain(long batch);

    /** The memory that the columns of a batch hold. */
    static native long batchBytes(long batch);

    static native void batchRelease(long batch);

    /** Fills in address and length of the two parts of the encoded batch; valid until the batch is released. */
    static native void batchEncode(long batch, long[] parts);

    /** The number of columns in the column tree. */
    static native int batchColumns(long batch);

    /** Fills in four addresses per column and the address of the row kinds; valid until the batch is released. */
    static native void batchExport(long batch, long[] addresses);

    /**
     * Writes rows of a batch that the stage put out as BinaryRows: their bytes, of which the buffer has the first 2 GiB. Fills in the
     * address of a long per row and one more: where each row starts in them and where the last ends. Valid until rows of this
     * stage are written again, or it is closed. Null if there is no such form for rows of this output.
     */
    static native ByteBuffer stageEncodeRows(long stage, long batch, int first, int rows, long[] offsets);

    // ----------------------------------------------------------------------------------------------------- testing

    /** The number of open handles of every sort in this process, with what the library has made in databases of RocksDB. */
    public static native long liveHandles();

    /** Panics inside the stage, to show that no panic leaves the library. */
    static native void testPanic(long stage);
}
