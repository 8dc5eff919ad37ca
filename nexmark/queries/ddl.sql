-- The online auction that all queries read: one table of three kinds of events, and a view of each kind.
-- A runner sets the options of the table with ALTER TABLE nexmark SET (...).

CREATE TABLE nexmark (
  event_type INT,                        -- 0 person, 1 auction, 2 bid; the columns of the two other kinds are null
  person ROW<
    id BIGINT,
    name VARCHAR,
    emailAddress VARCHAR,
    creditCard VARCHAR,
    city VARCHAR,
    state VARCHAR,
    `dateTime` TIMESTAMP(3),
    extra VARCHAR>,
  auction ROW<
    id BIGINT,
    itemName VARCHAR,
    description VARCHAR,
    initialBid BIGINT,
    reserve BIGINT,
    `dateTime` TIMESTAMP(3),
    expires TIMESTAMP(3),
    seller BIGINT,
    category BIGINT,
    extra VARCHAR>,
  bid ROW<
    auction BIGINT,
    bidder BIGINT,
    price BIGINT,
    channel VARCHAR,
    url VARCHAR,
    `dateTime` TIMESTAMP(3),
    extra VARCHAR>,
  `dateTime` AS CASE event_type
    WHEN 0 THEN person.`dateTime`
    WHEN 1 THEN auction.`dateTime`
    ELSE bid.`dateTime`
  END,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH (
  'connector' = 'nexmark',
  'events' = '1000000'
);

CREATE VIEW person AS
SELECT
  person.id,
  person.name,
  person.emailAddress,
  person.creditCard,
  person.city,
  person.state,
  `dateTime`,
  person.extra
FROM nexmark
WHERE event_type = 0;

CREATE VIEW auction AS
SELECT
  auction.id,
  auction.itemName,
  auction.description,
  auction.initialBid,
  auction.reserve,
  `dateTime`,
  auction.expires,
  auction.seller,
  auction.category,
  auction.extra
FROM nexmark
WHERE event_type = 1;

CREATE VIEW bid AS
SELECT
  bid.auction,
  bid.bidder,
  bid.price,
  bid.channel,
  bid.url,
  `dateTime`,
  bid.extra
FROM nexmark
WHERE event_type = 2;
