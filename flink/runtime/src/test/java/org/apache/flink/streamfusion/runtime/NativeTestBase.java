package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.flink.table.types.logical.RowType;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;

import java.util.Collections;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** Tests over the real library. Each one ends with no handle open. */
abstract class NativeTestBase {

    @BeforeAll
    static void theLibraryIsThere() {
        assertThat(NativeLibrary.unavailableReason())
                .as("run with -D%s=/path/to/libstreamfusion_jni.so", NativeLibrary.PATH_PROPERTY)
                .isEmpty();
    }

    @AfterEach
    void noHandleIsOpen() {
        assertThat(Native.liveHandles()).as("open handles").isZero();
    }

    /** The spec of a stage without operators: what goes in comes out, of every field. */
    static String passing(RowType type) {
        return spec(type, type, "", "", "null");
    }

    /** The spec of a stage without operators that splits by these columns. */
    static String splitting(RowType type, int... keys) {
        return spec(type, type, "", "", IntStream.of(keys).boxed().collect(Collectors.toList()).toString());
    }

    static String spec(RowType input, RowType output, String nodes, String hosts, String exchange) {
        return String.format(
                "{\"input\":\"%s\",\"entry\":true,\"reads\":%s,\"nodes\":[%s],\"hosts\":[%s],\"exchange\":%s,"
                        + "\"output\":\"rows\",\"writes\":%s,\"config\":{}}",
                input.asSerializableString(), readsAll(input), nodes, hosts, exchange, readsAll(output));
    }

    /** The spec of a stage without operators that reads nothing: rows come out with their kinds and every field NULL. */
    static String readingNothing(RowType type) {
        return passing(type).replace("\"reads\":" + readsAll(type), "\"reads\":" + readsNothing(type));
    }

    /** The {@code entry} array of a plan that reads nothing. */
    static String readsNothing(RowType type) {
        return Collections.nCopies(type.getFieldCount(), "null").toString();
    }

    /** The buffers for results of a type. */
    static String entrySpec(RowType type) {
        return String.format("{\"input\":\"%s\",\"reads\":%s}", type.asSerializableString(), readsAll(type));
    }

    /** The {@code entry} array of a plan that reads everything. */
    static String readsAll(RowType type) {
        return json(ReadFields.all(type).children());
    }

    private static String json(List<ReadFields> fields) {
        return fields.stream()
                .map(f -> f.children() == null ? "{}" : "{\"children\":" + json(f.children()) + "}")
                .collect(Collectors.joining(",", "[", "]"));
    }

    /** A batch as it comes from the network. */
    static NativeBatch ofEncoded(byte[] bytes, int rows, int keyGroup) {
        return NativeBatch.ofBytes(bytes, bytes.length, rows, keyGroup);
    }
}
