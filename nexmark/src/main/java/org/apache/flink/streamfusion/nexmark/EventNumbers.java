package org.apache.flink.streamfusion.nexmark;

import java.io.Serializable;

/**
 * What an event is and who exists by then, from its number alone.
 *
 * <p>Events come in rounds: people first, then auctions, then bids, each as many as its share. People and auctions are numbered in the
 * order of their events, from 0. So somebody who sells, and something to bid on, always comes first.
 *
 * @param people in a round
 * @param auctions in a round
 * @param bids in a round
 */
record EventNumbers(int people, int auctions, int bids) implements Serializable {

    /** The kinds of events, in the order of column {@code event_type}. */
    enum Kind {
        PERSON,
        AUCTION,
        BID
    }

    EventNumbers {
        if (people < 1 || auctions < 1 || bids < 1) {
            throw new IllegalArgumentException("There must be people, auctions and bids in each round");
        }
    }

    /** The events in a round. */
    int round() {
        return people + auctions + bids;
    }

    Kind kind(long event) {
        long offset = event % round();
        if (offset < people) {
            return Kind.PERSON;
        }
        return offset < people + auctions ? Kind.AUCTION : Kind.BID;
    }

    /** Number of the last person that has registered by this event, this event included. */
    long lastPerson(long event) {
        return event / round() * people + Math.min(event % round(), people - 1);
    }

    /** Number of the last auction that was opened by this event, this event included; -1 if there is none. */
    long lastAuction(long event) {
        long begun = Math.min(event % round() - people + 1, auctions);
        return event / round() * auctions + Math.max(begun, 0) - 1;
    }
}
