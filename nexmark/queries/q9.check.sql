-- Query 9 as it can be compared. Without mini-batch Flink 2.2 takes every first of a ROW_NUMBER for one that stays, and sends no retraction
-- of it when it does not: only by key is there a final table.

CREATE TABLE q9 (
  id BIGINT,
  itemName VARCHAR,
  description VARCHAR,
  initialBid BIGINT,
  reserve BIGINT,
  `dateTime` TIMESTAMP(3),
  expires TIMESTAMP(3),
  seller BIGINT,
  category BIGINT,
  extra VARCHAR,
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  bid_dateTime TIMESTAMP(3),
  bid_extra VARCHAR,
  PRIMARY KEY (id) NOT ENFORCED
) WITH ('connector' = 'blackhole');

INSERT INTO q9
SELECT
  id, itemName, description, initialBid, reserve, `dateTime`, expires, seller, category, extra,
  auction, bidder, price, bid_dateTime, bid_extra
FROM (
  SELECT
    offer.*,
    b.auction, b.bidder, b.price, b.`dateTime` AS bid_dateTime, b.extra AS bid_extra,
    ROW_NUMBER() OVER (PARTITION BY offer.id ORDER BY b.price DESC, b.`dateTime` ASC) AS place
  FROM auction AS offer
  JOIN bid AS b ON offer.id = b.auction AND b.`dateTime` BETWEEN offer.`dateTime` AND offer.expires
)
WHERE place <= 1;
