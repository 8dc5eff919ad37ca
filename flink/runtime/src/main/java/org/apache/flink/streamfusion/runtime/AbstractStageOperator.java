package org.apache.flink.streamfusion.runtime;

import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.runtime.checkpoint.CheckpointOptions;
import org.apache.flink.runtime.checkpoint.SnapshotType;
import org.apache.flink.runtime.execution.Environment;
import org.apache.flink.runtime.io.network.api.writer.ResultPartitionWriter;
import org.apache.flink.runtime.state.CheckpointStreamFactory;
import org.apache.flink.runtime.state.AbstractKeyedStateBackend;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streamfusion.runtime.PendingFragments.RawKeyedState;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OperatorSnapshotFutures;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.table.data.RowData;
import org.apache.flink.util.ExceptionUtils;
import org.apache.flink.util.IOUtils;
import org.apache.flink.util.function.ThrowingRunnable;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.function.Supplier;

/**
 * A stage as one Flink operator: rows or batches in, rows or batches out, one push and a few pulls per batch. Everything but
 * how many inputs Flink sees.
 *
 * <p>Rows are buffered. Whatever must not overtake them (a watermark, its status, record attributes, a barrier, the end of the
 * input, rows of another input) closes the batch first, and a row waits no longer than the latency bound. So at every point where
 * somebody could notice, this operator has emitted what stock operators would have emitted.
 *
 * <p>Bundles of the stage end where Flink's operators end theirs: before a watermark, before a barrier and when the operator
 * finishes. A status of watermarks and record attributes pass an open bundle, as they do in Flink.
 *
 * <p>Only a stage knows its keys, so there is no key context in Flink's sense.
 */
abstract class AbstractStageOperator extends AbstractStreamOperator<Object> {

    private static final long serialVersionUID = 1L;

    private final StageConfig stageConfig;

    /** By which the state is known, or null. */
    private final String operatorUid;

    /** What to close, last opened first. */
    private transient Deque<AutoCloseable> opened;

    private transient StageInput[] inputs;
    private transient long stage;

    /** Null if the stage does not ask for the time. */
    private transient StageClock clock;

    /** The keyed state, or null if the stage keeps none. */
    private transient NativeState state;

    /** Of what the stage collects if it keeps no keyed state, which would account for it; else null. */
    private transient ManagedMemory memory;

    /** Null if the stage does not remember how far event time has come. */
    private transient StageProgress progress;

    private transient boolean restored;

    private transient StageShuffle shuffle;

    /** Of the snapshot that is being taken, or of the last one. */
    private transient SnapshotType snapshotType;

    /** The input that an element came from last, to which rows that wait belong. Null at first, and rows of a snapshot may wait. */
    private transient StageInput lastInput;

    /** Whether rows wait in front of the stage, as rows or in batches. */
    private transient boolean rowsWait;

    /** What the first flush that failed failed with; the rows of its batch are lost, so nothing goes on after it. */
    private transient Throwable failure;

    private transient LatencyBound latencyBound;

    private transient Counter batchesIn;
    private transient Counter rowsIn;
    private transient StageMetrics stageMetrics;
    private transient StageOutput stageOutput;

    /** Null if the stage drops no rows. */
    private transient DroppedRows dropped;

    AbstractStageOperator(StreamOperatorParameters<Object> parameters, StageConfig config, String operatorUid) {
        super(parameters);
        this.stageConfig = config;
        this.operatorUid = operatorUid;
    }

    // --------------------------------------------------------------------------------------------------- lifecycle

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        restored = context.isRestored();
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
        latencyBound = new LatencyBound(getProcessingTimeService(), () -> rowsWait, this::flush);
        opened = new ArrayDeque<>();
        stageOutput =
                new StageOutput(
                        stageConfig, output, openLocalEdge(), getExecutionConfig().isObjectReuseEnabled(), group);

        final HostCalls hosts = openHosts(group);
        final ExchangeChannels channels = stageConfig.hasExchange ? ExchangeChannels.of(this) : ExchangeChannels.NONE;
        if (stageConfig.isStateful()) {
            state = NativeState.of(this, stageConfig, operatorUid);
            opened.push(state);
        }
        if (state == null && stageConfig.claimsMemory()) {
            memory =
                    ManagedMemory.open(
                            getContainingTask().getEnvironment().getMemoryManager(), stageConfig.description, group);
            opened.push(memory);
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
        Native.stageAutoWatermarkInterval(stage, getExecutionConfig().getAutoWatermarkInterval());
        dropped = DroppedRows.of(stage, group, getProcessingTimeService());
        progress = StageProgress.of(stage, getOperatorStateBackend());
        if (progress != null && restored) {
            progress.restore();
            if (dropped != null) {
                dropped.watermark(Native.stageProgress(stage));
            }
        }
        if (shuffle.open(stage)) {
            // what was restored is ready, but nothing may be emitted here yet
            rowsWait = true;
            latencyBound.start(0);
        }
        stageMetrics = new StageMetrics(group);
        stageMetrics.refresh(Native.stageMetrics(stage));
        inputs = new StageInput[stageConfig.inputCount()];
        for (int number = 0; number < inputs.length; number++) {
            inputs[number] = new StageInput(number, stageConfig.input(number));
            if (!stageConfig.input(number).isBatches()) {
                final RowEntry entry = openEntry(number, stageConfig.input(number));
                opened.push(entry);
                inputs[number].open(entry);
            }
        }
        clock =
                StageClock.start(
                        stage,
                        getProcessingTimeService(),
                        getContainingTask().getEnvironment().getMetricGroup().getIOMetricGroup(),
                        this::onClock);
        if (clock != null) {
            opened.push(clock);
        }
    }

    /** Null if batches always leave encoded, or not over an exchange. */
    private LocalEdge.Sender openLocalEdge() {
        final Environment task = getContainingTask().getEnvironment();
        opened.push(LocalEdge.consume(task));
        // Asked here again, since a checkpoint that stores a ticket instead of a batch loses rows.
        if (!stageConfig.byHandle || CheckpointingOptions.isUnalignedCheckpointEnabled(task.getJobConfiguration())) {
            return null;
        }
        final List<ResultPartitionWriter> writers = ExchangeChannels.writers(this);
        // a ticket is for one edge
        return writers.size() == 1
                ? LocalEdge.Sender.of(writers.get(0), task, getMetricGroup().counter("nativeBatchesByHandle"))
                : null;
    }

    /** Whether watermarks of the second input count for nothing, as if its last one had come. */
    final boolean ignoresSecondWatermarks() {
        return Native.stageIgnoresSecondWatermarks(stage);
    }

    /** Bytes of memory that the keyed state was found to take last. */
    final long stateBytes() {
        return state.usedBytes();
    }

    private RowEntry openEntry(int number, StageConfig.Input input) {
        final ReadFields fields = ReadFields.parse(input.entry(), input.rowType());
        // nothing to wait for, so no room for more than one row
        final int capacityRows = stageConfig.latencyMs == 0 ? 1 : stageConfig.maxBatchRows;
        final long maxVariableBytes =
                stageConfig.outputIsBatches() ? RowEntry.MAX_VARIABLE_BYTES_ON_NETWORK : RowEntry.MAX_VARIABLE_BYTES;
        final EntryMemory memory = named(() -> EntryMemory.open(stageConfig.spec, number, capacityRows));
        final RowEntry entry = new RowEntry(memory, input.rowType(), fields, capacityRows, maxVariableBytes);
        entry.takeBinaryRows();
        return entry;
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

    /** The input of this number has ended. */
    final void endOfInput(int input) throws Exception {
        flush();
        if (shuffle.isPending(stage, input)) {
            throw new NativeException(stageConfig.description + ": the input ended, but a batch has not arrived completely");
        }
    }

    @Override
    public void finish() throws Exception {
        endBundles(Native.FLUSH_END_OF_INPUT);
        if (stageMetrics != null) {
            stageMetrics.refresh(Native.stageMetrics(stage));
        }
        super.finish();
    }

    @Override
    public void prepareSnapshotPreBarrier(long checkpointId) throws Exception {
        endBundles(Native.FLUSH_CHECKPOINT);
    }

    @Override
    public OperatorSnapshotFutures snapshotState(
            long checkpointId, long timestamp, CheckpointOptions options, CheckpointStreamFactory streams) throws Exception {
        snapshotType = options.getCheckpointType();
        if (state != null) {
            state.writeBack(options);
        }
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
        if (progress != null) {
            progress.snapshot();
        }
    }

    @Override
    protected boolean isUsingCustomRawKeyedState() {
        return stageConfig.receivesFragments() && rawKeyedState() == RawKeyedState.OURS;
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
        inputs = null;
        IOUtils.closeAll(toClose);
    }

    // ------------------------------------------------------------------------------------------------------- input

    @Override
    @SuppressWarnings("rawtypes") // as it is declared
    public void setKeyContextElement1(StreamRecord record) {
        // see the class comment
    }

    @Override
    @SuppressWarnings("rawtypes") // as it is declared
    public void setKeyContextElement2(StreamRecord record) {
        // see the class comment
    }

    final void processElement(int number, StreamRecord<Object> element) throws Exception {
        checkNotFailed();
        final StageInput input = inputs[number];
        if (input != lastInput) {
            flush(); // the rows of the other input came first
            lastInput = input;
        }
        if (input.isBatches()) {
            tellTime();
            pushBatch(input, (NativeBatch) element.getValue());
            pull();
            boundLatency(input);
            releaseHeld(input);
        } else {
            write(input, (RowData) element.getValue());
        }
    }

    private void write(StageInput input, RowData row) throws Exception {
        if (input.mustFinishBefore(row)) {
            flush();
        }
        if (!rowsWait) {
            // Told now and not when the batch is pushed: in between the timers of the clock push it in time.
            tellTime();
            rowsWait = true;
            if (stageConfig.latencyMs > 0) {
                latencyBound.start(stageConfig.latencyMs);
            }
        }
        if (input.write(row)) {
            flush();
        }
    }

    private void pushBatch(StageInput input, NativeBatch batch) {
        batchesIn.inc();
        rowsIn.inc(batch.rows());
        batch.pushTo(stage, input.number);
    }

    /** Pushes the rows that wait and emits what comes of them. Fails if a flush failed before. */
    private void flush() throws Exception {
        checkNotFailed();
        if (rowsWait) {
            failingForGood(
                    () -> {
                        pushWaiting();
                        pull();
                    });
        }
    }

    private void pushWaiting() {
        rowsWait = false;
        if (lastInput != null && lastInput.rows() > 0) {
            batchesIn.inc();
            rowsIn.inc(lastInput.rows());
            Native.stagePush(stage, lastInput.number, named(lastInput::finish));
        } else {
            Native.stageFlush(stage);
        }
    }

    private void failingForGood(ThrowingRunnable<Exception> work) throws Exception {
        try {
            work.run();
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

    /** Batches that are too small wait as rows do. */
    private void boundLatency(StageInput input) {
        if (shuffle.gathers(input.number)) {
            final boolean waited = rowsWait;
            rowsWait = Native.stageWaitingRows(stage) > 0;
            if (rowsWait && !waited && stageConfig.latencyMs > 0) {
                latencyBound.start(stageConfig.latencyMs);
            }
        }
    }

    // ------------------------------------------------------------------------------------------------------- clock

    /** What the stage says to the time leaves before the rows that come now. */
    private void tellTime() throws Exception {
        if (clock == null) {
            return;
        }
        if (rowsWait && clock.isDue()) {
            flush(); // these rows came before
        }
        if (clock.tell()) {
            pull();
        }
    }

    private void onClock(long timestamp) throws Exception {
        clock.fired();
        flush(); // these rows came before
        failingForGood(this::tellTime);
    }

    // ------------------------------------------------------------------------------ what must not overtake the rows

    /** Lets the rows before an event of an input go, and then the event, unless rows before it have not arrived completely. */
    final void passInOrder(int number, ThrowingRunnable<Exception> event) throws Exception {
        flush();
        final StageInput input = inputs[number];
        if (input.held.isEmpty() && !shuffle.isPending(stage, number)) {
            event.run();
        } else {
            input.held.hold(event);
        }
    }

    private void releaseHeld(StageInput input) throws Exception {
        if (!input.held.isEmpty() && !shuffle.isPending(stage, input.number)) {
            flush();
            input.held.release();
        }
    }

    /** Ends the bundles of the stage, behind the rows that wait, and emits what comes of them. */
    final void endBundles(int reason) throws Exception {
        flush();
        failingForGood(
                () -> {
                    Native.stageFlushBundles(stage, reason);
                    pull();
                });
    }

    /** Sends a watermark of all inputs through the stage, where it ends bundles. The stage decides which one is emitted. */
    @Override
    public void processWatermark(Watermark watermark) throws Exception {
        flush();
        if (dropped != null) {
            dropped.watermark(watermark.getTimestamp());
        }
        failingForGood(
                () -> {
                    Native.stageWatermark(stage, watermark.getTimestamp());
                    pull();
                });
    }

    /** Sends the status of all inputs through the stage, which decides whether it is emitted. It ends no bundles. */
    @Override
    public void processWatermarkStatus(WatermarkStatus status) throws Exception {
        flush();
        failingForGood(
                () -> {
                    Native.stageStatus(stage, status.isIdle());
                    pull();
                });
    }

    // ------------------------------------------------------------------------------------------------------ output

    private void pull() throws Exception {
        for (long next = Native.stagePull(stage); next != 0; next = Native.stagePull(stage)) {
            if (next == Native.WATERMARK) {
                super.processWatermark(new Watermark(Native.stagePulledWatermark(stage)));
            } else if (next == Native.IDLE) {
                super.processWatermarkStatus(WatermarkStatus.IDLE);
            } else if (next == Native.ACTIVE) {
                super.processWatermarkStatus(WatermarkStatus.ACTIVE);
            } else {
                stageOutput.emitAndRelease(stage, next);
            }
        }
        if (clock != null) {
            clock.arm(); // rows and marks set timers, too
        }
        if (dropped != null) {
            dropped.update();
        }
        if (state != null) {
            state.accountForMemory();
        }
        if (memory != null) {
            final long[] bytes = Native.stageMemory(stage);
            memory.update(bytes[0], bytes[1]);
        }
        if (stageMetrics.isStale()) {
            stageMetrics.refresh(Native.stageMetrics(stage));
        }
    }
}
