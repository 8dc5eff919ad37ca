package org.apache.flink.streamfusion.tests;

import org.apache.flink.runtime.checkpoint.Checkpoints;
import org.apache.flink.runtime.checkpoint.OperatorState;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.checkpoint.metadata.CheckpointMetadata;
import org.apache.flink.runtime.state.ChannelStateHelper;
import org.apache.flink.runtime.state.StreamStateHandle;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.stream.Stream;

/** What a checkpoint has stored of records that were on their way. */
final class ChannelStates {
    /** How the wire forms begin: a fragment, and a whole batch. */
    static final String FRAGMENT = "SFFG";

    static final String BATCH = "SFRB";

    private ChannelStates() {}

    /** The bytes of all channels, stored in the checkpoint in a directory; one character per byte. */
    static List<String> of(Path checkpoint) throws IOException {
        try (DataInputStream in = new DataInputStream(Files.newInputStream(checkpoint.resolve("_metadata")))) {
            CheckpointMetadata metadata =
                    Checkpoints.loadCheckpointMetadata(in, ChannelStates.class.getClassLoader(), checkpoint.toUri().toString());
            return metadata.getOperatorStates().stream()
                    .map(OperatorState::getStates)
                    .flatMap(Collection::stream)
                    .flatMap(ChannelStates::handles)
                    .map(ChannelStates::bytes)
                    .toList();
        }
    }

    /** Whether a channel holds a wire form that begins like that. */
    static boolean hold(List<String> channels, String magic) {
        return channels.stream().anyMatch(bytes -> bytes.contains(magic));
    }

    private static Stream<StreamStateHandle> handles(OperatorSubtaskState state) {
        return ChannelStateHelper.collectUniqueDisposableInChannelState(
                Stream.of(state.getInputChannelState(), state.getResultSubpartitionState()));
    }

    private static String bytes(StreamStateHandle handle) {
        try (var in = handle.openInputStream()) {
            return new String(in.readAllBytes(), StandardCharsets.ISO_8859_1);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
