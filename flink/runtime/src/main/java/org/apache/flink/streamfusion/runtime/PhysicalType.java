package org.apache.flink.streamfusion.runtime;

import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.utils.LogicalTypeChecks;

/** How the values of a logical type lie in a column. The rows of the two tables in {@code docs/design/boundary.md}. */
enum PhysicalType {
    BOOLEAN,
    INT8,
    INT16,
    INT32,
    INT64,
    FLOAT32,
    FLOAT64,
    DECIMAL,
    /** A timestamp of at most 3 digits. */
    MILLIS,
    /** A timestamp of more than 3 digits. */
    NANOS,
    TEXT,
    BYTES,
    ROW,
    /** The bytes of a {@code BinaryArrayData}. */
    ARRAY,
    /** The bytes of a {@code BinaryMapData}, of a MULTISET too: how often each element is there. */
    MAP;

    /** Fails for a type that no batch carries; the plan has none of those among the fields that are read. */
    static PhysicalType of(LogicalType type) {
        return switch (type.getTypeRoot()) {
            case BOOLEAN -> BOOLEAN;
            case TINYINT -> INT8;
            case SMALLINT -> INT16;
            case INTEGER, DATE, TIME_WITHOUT_TIME_ZONE, INTERVAL_YEAR_MONTH -> INT32;
            case BIGINT, INTERVAL_DAY_TIME -> INT64;
            case FLOAT -> FLOAT32;
            case DOUBLE -> FLOAT64;
            case DECIMAL -> DECIMAL;
            case TIMESTAMP_WITHOUT_TIME_ZONE, TIMESTAMP_WITH_LOCAL_TIME_ZONE ->
                    LogicalTypeChecks.getPrecision(type) <= 3 ? MILLIS : NANOS;
            case CHAR, VARCHAR -> TEXT;
            case BINARY, VARBINARY -> BYTES;
            case ROW -> ROW;
            case ARRAY -> ARRAY;
            case MAP, MULTISET -> MAP;
            default -> throw new IllegalArgumentException("Batches cannot carry the type " + type);
        };
    }
}
