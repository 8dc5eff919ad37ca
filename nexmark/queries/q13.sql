-- Bids with what a side table knows about them, looked up as they pass.

CREATE TABLE side_input (
  `key` BIGINT,
  `value` VARCHAR
) WITH (
  'connector' = 'nexmark-side-input',
  'rows' = '10000'
);

CREATE TABLE q13 (
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  `dateTime` TIMESTAMP(3),
  `value` VARCHAR
) WITH ('connector' = 'blackhole');

INSERT INTO q13
SELECT b.auction, b.bidder, b.price, b.`dateTime`, side.`value`
FROM (SELECT *, PROCTIME() AS p_time FROM bid) AS b
JOIN side_input FOR SYSTEM_TIME AS OF b.p_time AS side ON MOD(b.auction, 10000) = side.`key`;
