package org.apache.flink.streamfusion.runtime;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;

import java.util.List;
import java.util.Set;

class ExchangeChannelsTest {

    @Test
    void anUnconnectedExchangeHasOneChannel() {
        assertThat(ExchangeChannels.merge(Set.of())).isEqualTo(new ExchangeChannels(1, 128));
    }

    @Test
    void oneConsumerDecides() {
        final ExchangeChannels consumer = new ExchangeChannels(8, 256);
        assertThat(ExchangeChannels.merge(List.of(consumer, consumer))).isEqualTo(consumer);
    }

    @Test
    void consumersOfDifferentParallelismGetOnePartPerKeyGroup() {
        assertThat(ExchangeChannels.merge(List.of(new ExchangeChannels(8, 256), new ExchangeChannels(3, 256))))
                .isEqualTo(new ExchangeChannels(256, 256));
    }

    @Test
    void consumersWithDifferentKeyGroupsAreRefused() {
        assertThatThrownBy(
                        () -> ExchangeChannels.merge(List.of(new ExchangeChannels(8, 256), new ExchangeChannels(8, 128))))
                .hasMessageContaining("maximum parallelism");
    }
}
