package org.apache.flink.streamfusion.runtime;

import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.generated.GeneratedFunction;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;


/**
 * An expression that runs in the JVM, called by a stage once per batch.
 *
 * @param function maps a row of the input type to one row of one field
 * @param inputType the row type that the function was generated for
 * @param inputs the fields of the input type that the function reads, in the order of the columns that the stage passes
 * @param outputType the type of the one field of the result
 * @param outputSpec describes to the library the buffers that results are written into
 */
public record HostFunction(
        GeneratedFunction<FlatMapFunction<RowData, RowData>> function,
        RowType inputType,
        int[] inputs,
        LogicalType outputType,
        String outputSpec)
        implements StageHost {}
