package org.apache.flink.streamfusion.runtime;

import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.runtime.checkpoint.CheckpointOptions;
import org.apache.flink.runtime.checkpoint.SnapshotType;
import org.apache.flink.runtime.event.WatermarkEvent;
import org.apache.flink.runtime.state.CheckpointStreamFactory;
import org.apache.flink.runtime.state.AbstractKeyedStateBackend;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streamfusion.runtime.PendingFragments.RawKeyedState;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.BoundedOneInput;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.OperatorSnapshotFutures;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.RecordAttributes;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.table.data.RowData;
import org.apache.flink.util.ExceptionUtils;
import org.apache.flink.util.IOUtils;
import org.apache.flink.util.function.ThrowingRunnable;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.function.Supplier;

/**
 * A stage as one Flink operator: rows or batches in, rows or batches out, one push and a few pulls per batch.
 *
 * <p>Rows are buffered. Whatever must not overtake them (a watermark, its status, record attributes, a barrier, the end of the
 * input) closes the batch first, and a row waits no longer than the latency bound. So at every point where somebody could
 * notice, this operator has emitted what stock operators would have emitted.
 *
 * <p>Only a stage knows its keys, so there is no key context in Flink's sense.
 */
final class NativeStageOperator extends AbstractStreamOperator<Object>
        implements OneInputStreamOperator<Object, Object>, BoundedOneInput {

    private static final long serialVersionUID = 1L;

    private final StageConfig stageConfig;

    /** By which the state is known, or null. */
    private final String operatorUid;

    /** What to close, last opened first. */
    private transient Deque<AutoCloseable> opened;

    private transient StreamRecord<Object> outRecord;
    private transient RowEntry entry;
    private transient long stage;

    /** The keyed state, or null if the stage keeps none. */
    private transient NativeState state;

    private transient boolean restored;

    private transient StageShuffle shuffle;
    private transient HeldEvents held;

    /** Of the snapshot that is being taken, or of the last one. */
    private transient SnapshotType snapshotType;

    /** Whether rows of batches wait in front of the stage. */
    private transient boolean rowsWait;

    /** What the first flush that failed failed with; the rows of its batch are lost, so nothing goes on after it. */
    private transient Throwable failure;

    private transient long batchDeadline;
    private transient boolean timerPending;

    private transient Counter batchesIn;
    private transient Counter rowsIn;
    private transient Counter batchesOut;
    private transient Counter rowsOut;
    private transient StageMetrics stageMetrics;

    NativeStageOperator(StreamOperatorParameters<Object> parameters, StageConfig config, String operatorUid) {
        super(parameters);
        this.stageConfig = config;
        this.operatorUid = operatorUid;
    }

    // --------------------------------------------------------------------------------------------------- lifecycle

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        restored = context.isRestored();
        held = new HeldEvents();
        shuffle = StageShuffle.of(stageConfig, getRuntimeContext().getTaskInfo(), context);
    }

    @Override
    public void open() throws Exception {
        super.open();
        final String unavailable = NativeLibrary.unavailableReason().orElse(null);
        if (unavailable != null) {
            throw new NativeException(
                    stageConfig.description + " was planned to run natively, but on this task manager " + unavailable);
        }
        final MetricGroup group = getMetricGroup();
        batchesIn = group.counter("nativeBatchesIn");
        rowsIn = group.counter("nativeRowsIn");
        batchesOut = group.counter("nativeBatchesOut");
        rowsOut = group.counter("nativeRowsOut");
        outRecord = new StreamRecord<>(null);
        opened = new ArrayDeque<>();

        final HostCalls hosts = openHosts(group);
        final ExchangeChannels channels = stageConfig.hasExchange ? ExchangeChannels.of(this) : ExchangeChannels.NONE;
        if (stageConfig.isStateful()) {
            state = NativeState.of(this, stageConfig, operatorUid);
            opened.push(state);
        }
        final String stateParameters = state == null ? null : state.parameters();
        stage = named(
                        () -> Native.stageOpen(
                                stageConfig.spec,
                                hosts,
                                channels.channels(),
                                channels.maxParallelism(),
                                stateParameters));
        opened.push(() -> Native.stageClose(stage));
        if (state != null) {
            state.open(stage);
            if (restored) {
                state.restore();
            }
        }
        if (shuffle.open(stage)) {
            // what was restored is ready, but nothing may be emitted here yet
            rowsWait = true;
            startLatencyBound(0);
        }
        stageMetrics = new StageMetrics(group);
        stageMetrics.refresh(Native.stageMetrics(stage));
        if (!stageConfig.inputIsBatches()) {
            entry = openEntry();
            opened.push(entry);
        }
    }

    private RowEntry openEntry() {
        final ReadFields fields = ReadFields.parse(stageConfig.entry, stageConfig.inputType);
        // nothing to wait for, so no room for more than one row
        final int capacityRows = stageConfig.latencyMs == 0 ? 1 : stageConfig.maxBatchRows;
        final long maxVariableBytes =
                stageConfig.outputIsBatches() ? RowEntry.MAX_VARIABLE_BYTES_ON_NETWORK : RowEntry.MAX_VARIABLE_BYTES;
        final EntryMemory memory = named(() -> EntryMemory.open(stageConfig.spec, capacityRows));
        return new RowEntry(memory, stageConfig.inputType, fields, capacityRows, maxVariableBytes);
    }

    /** Adds to a failure of the library outside of its nodes, which it can name itself, in which stage it was. */
    private <T> T named(Supplier<T> call) {
        try {
            return call.get();
        } catch (NativeException e) {
            throw new NativeException(stageConfig.description + ": " + e.getMessage(), e);
        }
    }

    private HostCalls openHosts(MetricGroup group) throws Exception {
        if (stageConfig.hosts.length == 0) {
            return null;
        }
        final HostCalls hosts =
                new HostCalls(stageConfig.hosts, group.counter("hostCalls"), group.counter("hostRows"));
        opened.push(hosts::close);
        hosts.open(getRuntimeContext());
        return hosts;
    }

    @Override
    public void endInput() throws Exception {
        flush();
        if (shuffle.isPending(stage)) {
            throw new NativeException(stageConfig.description + ": the input ended, but a batch has not arrived completely");
        }
    }

    @Override
    public void finish() throws Exception {
        flush();
        if (stageMetrics != null) {
            stageMetrics.refresh(Native.stageMetrics(stage));
        }
        super.finish();
    }

    @Override
    public void prepareSnapshotPreBarrier(long checkpointId) throws Exception {
        flush();
    }

    @Override
    public OperatorSnapshotFutures snapshotState(
            long checkpointId, long timestamp, CheckpointOptions options, CheckpointStreamFactory streams) throws Exception {
        snapshotType = options.getCheckpointType();
        final OperatorSnapshotFutures futures = super.snapshotState(checkpointId, timestamp, options, streams);
        if (state != null) {
            state.snapshot(futures, checkpointId, timestamp, options, streams);
        }
        return futures;
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        shuffle.snapshot(stage, context, rawKeyedState());
    }

    @Override
    protected boolean isUsingCustomRawKeyedState() {
        return stageConfig.fragmentInput && rawKeyedState() == RawKeyedState.OURS;
    }

    /** Asked for before there is a backend as well: what is restored is for {@link PendingFragments} to tell apart. */
    private RawKeyedState rawKeyedState() {
        return snapshotType != null
                        && getKeyedStateBackend() instanceof AbstractKeyedStateBackend<?> backend
                        && backend.requiresLegacySynchronousTimerSnapshots(snapshotType)
                ? RawKeyedState.TIMERS
                : RawKeyedState.OURS;
    }

    @Override
    public void close() throws Exception {
        final Deque<AutoCloseable> toClose = new ArrayDeque<>();
        toClose.add(super::close);
        if (opened != null) {
            opened.descendingIterator().forEachRemaining(toClose::addFirst);
            opened.clear();
        }
        entry = null;
        IOUtils.closeAll(toClose);
    }

    // ------------------------------------------------------------------------------------------------------- input

    @Override
    @SuppressWarnings("rawtypes") // as it is declared
    public void setKeyContextElement1(StreamRecord record) {
        // see the class comment
    }

    @Override
    public void processElement(StreamRecord<Object> element) throws Exception {
        checkNotFailed();
        if (entry != null) {
            write((RowData) element.getValue());
        } else {
            pushBatch((NativeBatch) element.getValue());
            pull();
            boundLatency();
            releaseHeld();
        }
    }

    private void write(RowData row) throws Exception {
        if (entry.rows() == 0 && stageConfig.latencyMs > 0) {
            startLatencyBound(stageConfig.latencyMs);
        }
        entry.write(row);
        if (entry.isFull()) {
            flush();
        }
    }

    private void pushBatch(NativeBatch batch) {
        batchesIn.inc();
        rowsIn.inc(batch.rows());
        if (batch.isEncoded()) {
            final byte[] bytes = batch.encoded();
            Native.stagePushEncoded(stage, bytes, 0, bytes.length);
        } else {
            Native.stagePush(stage, Native.batchRetain(batch.handle())); // the record is borrowed
        }
    }

    /** Pushes the rows that wait and emits what comes of them. Fails if a flush failed before. */
    private void flush() throws Exception {
        checkNotFailed();
        if (!isWaiting()) {
            return;
        }
        try {
            if (entry != null) {
                batchesIn.inc();
                rowsIn.inc(entry.rows());
                Native.stagePush(stage, named(entry::finish));
            } else {
                rowsWait = false;
                Native.stageFlush(stage);
            }
            pull();
        } catch (Throwable e) {
            failure = e;
            throw e;
        }
    }

    /** A task survives what its timers throw for a moment, in which rows and barriers may come. */
    private void checkNotFailed() throws Exception {
        if (failure != null) {
            ExceptionUtils.rethrowException(failure);
        }
    }

    // ----------------------------------------------------------------------------------------------- latency bound

    private boolean isWaiting() {
        return entry == null ? rowsWait : entry.rows() > 0;
    }

    /** Batches that are too small wait as rows do. */
    private void boundLatency() {
        if (shuffle.gathers()) {
            final boolean waited = rowsWait;
            rowsWait = Native.stageWaitingRows(stage) > 0;
            if (rowsWait && !waited && stageConfig.latencyMs > 0) {
                startLatencyBound(stageConfig.latencyMs);
            }
        }
    }

    private void startLatencyBound(long latencyMs) {
        batchDeadline = getProcessingTimeService().getCurrentProcessingTime() + latencyMs;
        if (!timerPending) {
            registerTimer();
        }
    }

    private void registerTimer() {
        timerPending = true;
        getProcessingTimeService().registerTimer(batchDeadline, this::onTimer);
    }

    /** One timer serves many batches: it fires for a batch that has long gone and is set again for the current one. */
    private void onTimer(long timestamp) throws Exception {
        timerPending = false;
        if (!isWaiting()) {
            return;
        }
        if (batchDeadline <= timestamp) {
            flush();
        } else {
            registerTimer();
        }
    }

    // ------------------------------------------------------------------------------ what must not overtake the rows

    @Override
    public void processWatermark(Watermark watermark) throws Exception {
        passInOrder(() -> super.processWatermark(watermark));
    }

    @Override
    public void processWatermark(WatermarkEvent watermark) throws Exception {
        passInOrder(() -> super.processWatermark(watermark));
    }

    @Override
    public void processWatermarkStatus(WatermarkStatus status) throws Exception {
        passInOrder(() -> super.processWatermarkStatus(status));
    }

    @Override
    public void processRecordAttributes(RecordAttributes attributes) throws Exception {
        passInOrder(() -> super.processRecordAttributes(attributes));
    }

    /** Lets the rows before an event go, and then the event, unless rows before it have not arrived completely. */
    private void passInOrder(ThrowingRunnable<Exception> event) throws Exception {
        flush();
        if (held.isEmpty() && !shuffle.isPending(stage)) {
            event.run();
        } else {
            held.hold(event);
        }
    }

    private void releaseHeld() throws Exception {
        if (!held.isEmpty() && !shuffle.isPending(stage)) {
            flush();
            held.release();
        }
    }

    // ------------------------------------------------------------------------------------------------------ output

    private void pull() {
        for (long batch = Native.stagePull(stage); batch != 0; batch = Native.stagePull(stage)) {
            try {
                emit(batch);
            } finally {
                Native.batchRelease(batch);
            }
        }
        if (state != null) {
            state.accountForMemory();
        }
        if (stageMetrics.isStale()) {
            stageMetrics.refresh(Native.stageMetrics(stage));
        }
    }

    /** Emits a borrowed batch. */
    private void emit(long batch) {
        final int rows = Native.batchRows(batch);
        batchesOut.inc();
        rowsOut.inc(rows);
        if (stageConfig.outputIsBatches()) {
            output.collect(outRecord.replace(NativeBatch.ofHandle(batch, rows, Native.batchKeyGroup(batch))));
        } else {
            BatchExit.emit(batch, stageConfig.outputType, row -> output.collect(outRecord.replace(row)));
        }
    }
}
