package org.apache.flink.streamfusion.runtime;

import org.apache.flink.table.types.logical.RowType;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;

/** What the operator of a stage needs to know of it. Shipped to the task managers. */
public final class StageConfig implements Serializable {

    private static final long serialVersionUID = 1L;

    /** Rows in a batch unless the session says otherwise ({@code streamfusion.batch.max-rows}). */
    public static final int DEFAULT_MAX_BATCH_ROWS = 8192;

    /** The most rows that the library makes room for. */
    public static final int MAX_BATCH_ROWS = 1 << 20;

    final String description;
    final String spec;
    /** One, or two for a stage that tells two apart; the position is the number that the library knows an input by. */
    private final Input[] inputs;
    /** The type of the output rows, or null if the output is batches. */
    final RowType outputType;
    final boolean hasExchange;
    /** Whether batches leave as fragments, which a checkpoint may store on their way. */
    final boolean fragmentOutput;
    private final boolean stateful;
    private final boolean collects;
    final StageHost[] hosts;
    final int maxBatchRows;
    final long latencyMs;
    final long stateCacheBytes;
    /** Whether batches may travel by handle where all consumers are in the same process. */
    final boolean byHandle;

    private StageConfig(Builder builder) {
        this.description = builder.description;
        this.spec = builder.spec;
        this.inputs = builder.inputs.isEmpty() ? new Input[] {Input.batches()} : builder.inputs.toArray(new Input[0]);
        this.outputType = builder.outputType;
        this.hasExchange = builder.hasExchange;
        this.fragmentOutput = builder.fragmentOutput;
        this.stateful = builder.stateful;
        this.collects = builder.collects;
        this.hosts = builder.hosts.toArray(new StageHost[0]);
        this.maxBatchRows = builder.maxBatchRows;
        this.latencyMs = builder.latencyMs;
        this.stateCacheBytes = builder.stateCacheBytes;
        this.byHandle = builder.byHandle && builder.hasExchange && !builder.fragmentOutput;
    }

    /** Whether the stage has keyed state. */
    public boolean isStateful() {
        return stateful;
    }

    /** Whether the stage needs managed memory: for keyed state, or for rows that it collects. */
    public boolean claimsMemory() {
        return stateful || collects;
    }

    /** How many inputs it tells apart. */
    public int inputCount() {
        return inputs.length;
    }

    Input input(int number) {
        return inputs[number];
    }

    /** Whether fragments may arrive on an input. */
    boolean receivesFragments() {
        return Arrays.stream(inputs).anyMatch(Input::fragments);
    }

    /** Whether Flink must give the operator a keyed backend: it keeps state, or fragments by key group. */
    public boolean isKeyed() {
        return stateful || receivesFragments();
    }

    boolean outputIsBatches() {
        return outputType == null;
    }

    /**
     * One input of a stage.
     *
     * @param rowType the type of its rows, or null if it is batches
     * @param entry the {@code entry} array of the plan, or null if it is batches
     * @param fragments whether fragments may arrive, of this job or of the checkpoint it is restored from
     */
    public record Input(RowType rowType, String entry, boolean fragments) implements Serializable {

        private static final long serialVersionUID = 1L;

        /** Rows of a type, of which the fields named by the plan's {@code entry} array (JSON) are read. */
        public static Input rows(RowType type, String entry) {
            return new Input(Objects.requireNonNull(type), Objects.requireNonNull(entry), false);
        }

        /** Whole batches. */
        public static Input batches() {
            return new Input(null, null, false);
        }

        /** Batches or fragments. */
        public static Input fragmented() {
            return new Input(null, null, true);
        }

        boolean isBatches() {
            return rowType == null;
        }
    }

    /**
     * A stage from batches to batches, until told otherwise.
     *
     * @param description names the operator in messages
     * @param spec the stage's {@code spec} in the plan, passed back as it is
     */
    public static Builder builder(String description, String spec) {
        return new Builder(description, spec);
    }

    /** Collects the parts of a {@link StageConfig}. */
    public static final class Builder {

        private final String description;
        private final String spec;
        private final List<StageHost> hosts = new ArrayList<>();
        private final List<Input> inputs = new ArrayList<>(2);
        private RowType outputType;
        private boolean hasExchange;
        private boolean fragmentOutput;
        private boolean stateful;
        private boolean collects;
        private int maxBatchRows = DEFAULT_MAX_BATCH_ROWS;
        private long latencyMs = -1;
        private long stateCacheBytes = Long.MAX_VALUE;
        private boolean byHandle = true;

        private Builder(String description, String spec) {
            this.description = Objects.requireNonNull(description);
            this.spec = Objects.requireNonNull(spec);
        }

        /** Adds the next input, the left one of two first; a stage without any reads whole batches. */
        public Builder input(Input input) {
            if (inputs.size() == 2) {
                throw new IllegalStateException("A stage has two inputs at most");
            }
            inputs.add(Objects.requireNonNull(input));
            return this;
        }

        /** The next input is rows of a type, of which the fields named by the plan's {@code entry} array (JSON) are read. */
        public Builder rowInput(RowType type, String entry) {
            return input(Input.rows(type, entry));
        }

        /** The output is rows. */
        public Builder rowOutput(RowType type) {
            this.outputType = Objects.requireNonNull(type);
            return this;
        }

        /** The output is batches behind an exchange. */
        public Builder exchange() {
            this.hasExchange = true;
            return this;
        }

        /** The output is fragments behind a keyed exchange. */
        public Builder fragmentExchange() {
            this.fragmentOutput = true;
            return exchange();
        }

        /** The stage has keyed state. */
        public Builder stateful() {
            this.stateful = true;
            return this;
        }

        /** The stage collects rows of several batches, whether it has keyed state or not. */
        public Builder collects() {
            this.collects = true;
            return this;
        }

        /** Adds what runs next in the JVM; the first one has number 0. */
        public Builder host(StageHost host) {
            this.hosts.add(Objects.requireNonNull(host));
            return this;
        }

        /** A batch is closed at the latest when it has this many rows. */
        public Builder maxBatchRows(int rows) {
            if (rows < 1 || rows > MAX_BATCH_ROWS) {
                throw new IllegalArgumentException("A batch has room for 1 to " + MAX_BATCH_ROWS + " rows, not " + rows);
            }
            this.maxBatchRows = rows;
            return this;
        }

        /** A batch is closed at the latest so long after its first row: 0 after each row, negative not at all. */
        public Builder latencyMs(long latencyMs) {
            this.latencyMs = latencyMs;
            return this;
        }

        /** State in RocksDB makes room in memory above so many bytes, also if there is more. */
        public Builder stateCacheBytes(long bytes) {
            this.stateCacheBytes = bytes;
            return this;
        }

        /** Batches behind an exchange always travel encoded. Fragments do anyway. */
        public Builder encoded() {
            this.byHandle = false;
            return this;
        }

        public StageConfig build() {
            if (hasExchange && outputType != null) {
                throw new IllegalStateException("The output of an exchange is batches, not rows");
            }
            return new StageConfig(this);
        }
    }
}
