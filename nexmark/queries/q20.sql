-- Bids with their auctions, of category 10.

CREATE TABLE q20 (
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  channel VARCHAR,
  url VARCHAR,
  bid_dateTime TIMESTAMP(3),
  bid_extra VARCHAR,
  itemName VARCHAR,
  description VARCHAR,
  initialBid BIGINT,
  reserve BIGINT,
  auction_dateTime TIMESTAMP(3),
  expires TIMESTAMP(3),
  seller BIGINT,
  category BIGINT,
  auction_extra VARCHAR
) WITH ('connector' = 'blackhole');

INSERT INTO q20
SELECT
  b.auction, b.bidder, b.price, b.channel, b.url, b.`dateTime`, b.extra,
  offer.itemName, offer.description, offer.initialBid, offer.reserve, offer.`dateTime`, offer.expires, offer.seller,
  offer.category, offer.extra
FROM bid AS b
JOIN auction AS offer ON b.auction = offer.id
WHERE offer.category = 10;
