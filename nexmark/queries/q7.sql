-- The highest bids of every ten seconds.

CREATE TABLE q7 (
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  `dateTime` TIMESTAMP(3),
  extra VARCHAR
) WITH ('connector' = 'blackhole');

INSERT INTO q7
WITH highest AS (
  SELECT window_end AS until, MAX(price) AS price
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end
)
SELECT b.auction, b.bidder, b.price, b.`dateTime`, b.extra
FROM bid AS b
JOIN highest
  ON b.price = highest.price
  AND b.`dateTime` BETWEEN highest.until - INTERVAL '10' SECOND AND highest.until;
