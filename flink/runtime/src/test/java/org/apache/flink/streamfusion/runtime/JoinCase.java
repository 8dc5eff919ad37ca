package org.apache.flink.streamfusion.runtime;

import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.streaming.api.operators.TwoInputStreamOperator;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.binary.BinaryRowData;
import org.apache.flink.table.data.writer.BinaryRowWriter;
import org.apache.flink.table.runtime.generated.GeneratedJoinCondition;
import org.apache.flink.table.runtime.generated.JoinCondition;
import org.apache.flink.table.runtime.operators.bundle.trigger.CountCoBundleTrigger;
import org.apache.flink.table.runtime.operators.join.FlinkJoinType;
import org.apache.flink.table.runtime.operators.join.stream.MiniBatchStreamingJoinOperator;
import org.apache.flink.table.runtime.operators.join.stream.StreamingJoinOperator;
import org.apache.flink.table.runtime.operators.join.stream.StreamingSemiAntiJoinOperator;
import org.apache.flink.table.runtime.operators.join.stream.utils.JoinInputSideSpec;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.types.RowKind;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/**
 * A join of two inputs {@code (k BIGINT, u BIGINT, v STRING)} on {@code k}, with and without {@code left.u < right.u}, as Flink's
 * own operator does it.
 */
record JoinCase(
        FlinkJoinType type, Shape left, Shape right, boolean filterNulls, boolean condition, long ttlMs, long miniBatchSize) {

    /** What identifies rows of one join key. */
    enum Shape {
        /** There is at most one. */
        ONE,
        /** The column u. */
        UNIQUE,
        /** Nothing. */
        SEVERAL
    }

    /** A row of one of the inputs. */
    record Step(boolean left, RowKind kind, Long k, long u, String v) {

        BinaryRowData row() {
            final BinaryRowData row = new BinaryRowData(3);
            final BinaryRowWriter writer = new BinaryRowWriter(row);
            if (k == null) {
                writer.setNullAt(0);
            } else {
                writer.writeLong(0, k);
            }
            writer.writeLong(1, u);
            if (v == null) {
                writer.setNullAt(2);
            } else {
                writer.writeString(2, StringData.fromString(v));
            }
            writer.complete();
            row.setRowKind(kind);
            return row;
        }
    }

    static final RowType INPUT =
            RowType.of(
                    DataTypes.BIGINT().getLogicalType(),
                    DataTypes.BIGINT().notNull().getLogicalType(),
                    DataTypes.STRING().getLogicalType());

    /** Type of the key of a side. */
    static final InternalTypeInfo<RowData> KEY_TYPE = InternalTypeInfo.ofFields(DataTypes.BIGINT().getLogicalType());

    boolean isSemiOrAnti() {
        return type == FlinkJoinType.SEMI || type == FlinkJoinType.ANTI;
    }

    RowType output() {
        final List<LogicalType> fields = new ArrayList<>(INPUT.getChildren());
        if (!isSemiOrAnti()) {
            fields.addAll(INPUT.getChildren());
        }
        return RowType.of(fields.stream().map(field -> field.copy(true)).toArray(LogicalType[]::new));
    }

    static KeySelector<RowData, RowData> key(int column) {
        return row -> {
            final BinaryRowData key = new BinaryRowData(1);
            final BinaryRowWriter writer = new BinaryRowWriter(key);
            if (row.isNullAt(column)) {
                writer.setNullAt(0);
            } else {
                writer.writeLong(0, row.getLong(column));
            }
            writer.complete();
            return key;
        };
    }

    private static JoinInputSideSpec side(Shape shape) {
        return switch (shape) {
            case ONE -> JoinInputSideSpec.withUniqueKeyContainedByJoinKey(KEY_TYPE, key(0));
            case UNIQUE -> JoinInputSideSpec.withUniqueKey(KEY_TYPE, key(1));
            case SEVERAL -> JoinInputSideSpec.withoutUniqueKey();
        };
    }

    /** Flink's operator. */
    TwoInputStreamOperator<RowData, RowData, RowData> stock() {
        final InternalTypeInfo<RowData> row = InternalTypeInfo.of(INPUT);
        final GeneratedJoinCondition generated = new Less(condition);
        final boolean[] filter = {filterNulls};
        if (isSemiOrAnti()) {
            return new StreamingSemiAntiJoinOperator(
                    type == FlinkJoinType.ANTI, row, row, generated, side(left), side(right), filter, ttlMs, ttlMs);
        }
        final boolean leftIsOuter = type == FlinkJoinType.LEFT || type == FlinkJoinType.FULL;
        final boolean rightIsOuter = type == FlinkJoinType.RIGHT || type == FlinkJoinType.FULL;
        if (miniBatchSize > 0) {
            return MiniBatchStreamingJoinOperator.newMiniBatchStreamJoinOperator(
                    type, row, row, generated, side(left), side(right), leftIsOuter, rightIsOuter, filter, ttlMs, ttlMs,
                    new CountCoBundleTrigger<>(miniBatchSize));
        }
        return new StreamingJoinOperator(
                row, row, generated, side(left), side(right), leftIsOuter, rightIsOuter, filter, ttlMs, ttlMs);
    }

    /** Rows of few keys and values, in runs of one side: duplicates, NULL keys, deletes of rows that are not there. */
    static List<Step> steps(int count, long seed) {
        final Random random = new Random(seed);
        final List<Step> steps = new ArrayList<>();
        boolean left = true;
        for (int i = 0; i < count; i++) {
            left ^= random.nextInt(4) == 0;
            final RowKind kind = RowKind.values()[random.nextInt(4)];
            final Long k = random.nextInt(12) == 0 ? null : (Long) (long) random.nextInt(4);
            final String v = random.nextInt(6) == 0 ? null : random.nextBoolean() ? "a" : "some more text";
            steps.add(new Step(left, kind, k, random.nextInt(3), v));
        }
        return steps;
    }

    /** A row of the output as text. */
    static String text(RowData row) {
        final StringBuilder out = new StringBuilder(row.getRowKind().shortString());
        for (int i = 0; i < row.getArity(); i++) {
            out.append('|');
            if (row.isNullAt(i)) {
                out.append("NULL");
            } else if (i % 3 == 2) {
                out.append(row.getString(i));
            } else {
                out.append(row.getLong(i));
            }
        }
        return out.toString();
    }

    /** {@code left.u < right.u}, or TRUE. */
    private static final class Less extends GeneratedJoinCondition {
        private static final long serialVersionUID = 1L;
        private final boolean condition;

        Less(boolean condition) {
            super("Less", "", new Object[0]);
            this.condition = condition;
        }

        @Override
        public JoinCondition newInstance(ClassLoader classLoader) {
            return new Instance(condition);
        }

        private static final class Instance extends org.apache.flink.api.common.functions.AbstractRichFunction
                implements JoinCondition {
            private static final long serialVersionUID = 1L;
            private final boolean condition;

            private Instance(boolean condition) {
                this.condition = condition;
            }

            @Override
            public boolean apply(RowData left, RowData right) {
                return !condition || left.getLong(1) < right.getLong(1);
            }
        }
    }
}
