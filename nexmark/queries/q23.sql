-- Bids with their bidders, and with the auctions that these sell themselves.

CREATE TABLE q23 (
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  channel VARCHAR,
  url VARCHAR,
  bid_dateTime TIMESTAMP(3),
  bid_extra VARCHAR,
  name VARCHAR,
  emailAddress VARCHAR,
  creditCard VARCHAR,
  city VARCHAR,
  state VARCHAR,
  person_dateTime TIMESTAMP(3),
  person_extra VARCHAR,
  id BIGINT,
  itemName VARCHAR,
  description VARCHAR,
  initialBid BIGINT,
  reserve BIGINT,
  auction_dateTime TIMESTAMP(3),
  expires TIMESTAMP(3),
  category BIGINT,
  auction_extra VARCHAR
) WITH ('connector' = 'blackhole');

INSERT INTO q23
SELECT
  b.auction, b.bidder, b.price, b.channel, b.url, b.`dateTime`, b.extra,
  p.name, p.emailAddress, p.creditCard, p.city, p.state, p.`dateTime`, p.extra,
  offer.id, offer.itemName, offer.description, offer.initialBid, offer.reserve, offer.`dateTime`, offer.expires,
  offer.category, offer.extra
FROM bid AS b
JOIN person AS p ON b.bidder = p.id
JOIN auction AS offer ON p.id = offer.seller;
