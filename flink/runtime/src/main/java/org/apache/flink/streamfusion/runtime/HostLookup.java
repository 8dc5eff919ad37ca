package org.apache.flink.streamfusion.runtime;

import org.apache.flink.api.common.functions.Function;
import org.apache.flink.table.types.logical.RowType;

/**
 * The lookup of a lookup join, with everything that Flink does to what was found.
 *
 * @param function Flink's own: a {@code ProcessFunction} or an {@code AsyncFunction} of joined rows
 * @param inputType the type of the rows that are looked up
 * @param inputs the fields of the input type that the function reads, in the order of the columns that the stage passes
 * @param resultType the type of joined rows: the fields of the input, and behind them those of the table
 * @param reads the fields of the result type that are written, as an {@code entry} array (JSON): those of the table
 * @param resultSpec describes to the library the buffers that results are written into
 * @param async how an asynchronous function is called, or null for one that is none
 */
public record HostLookup(
        Function function,
        RowType inputType,
        int[] inputs,
        RowType resultType,
        String reads,
        String resultSpec,
        Async async)
        implements StageHost {

    /**
     * How an asynchronous function is called.
     *
     * @param timeoutMs how long a row may take, or 0 for any time
     * @param capacity how many rows are looked up at once
     */
    public record Async(long timeoutMs, int capacity) implements java.io.Serializable {

        private static final long serialVersionUID = 1L;
    }
}
