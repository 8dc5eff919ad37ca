-- Bids on a few chosen auctions.

CREATE TABLE q2 (
  auction BIGINT,
  price BIGINT
) WITH ('connector' = 'blackhole');

INSERT INTO q2
SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0;
