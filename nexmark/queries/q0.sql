-- All bids, as they are: what it costs to read and write.

CREATE TABLE q0 (
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  `dateTime` TIMESTAMP(3),
  extra VARCHAR
) WITH ('connector' = 'blackhole');

INSERT INTO q0
SELECT auction, bidder, price, `dateTime`, extra FROM bid;
