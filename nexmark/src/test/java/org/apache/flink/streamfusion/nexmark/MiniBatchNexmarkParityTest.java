package org.apache.flink.streamfusion.nexmark;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

import java.io.IOException;
import java.util.List;

/** {@link NexmarkParityTest} with mini-batch. */
class MiniBatchNexmarkParityTest {

    static List<NexmarkParityTest.Case> cases() throws IOException {
        return NexmarkParityTest.cases(BenchSetup.MiniBatch.ON);
    }

    @ParameterizedTest
    @MethodSource("cases")
    void resultsAreThoseOfStockFlink(NexmarkParityTest.Case tested) throws Exception {
        NexmarkParityTest.check(tested);
    }
}
