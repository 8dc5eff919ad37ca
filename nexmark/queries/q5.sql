-- The auctions with the most bids within the last ten seconds, told every two seconds.

CREATE TABLE q5 (
  auction BIGINT,
  num BIGINT
) WITH ('connector' = 'blackhole');

INSERT INTO q5
WITH counted AS (
  SELECT auction, window_start, window_end, COUNT(*) AS num
  FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
  GROUP BY auction, window_start, window_end
),
most AS (
  SELECT window_start, window_end, MAX(num) AS num
  FROM counted
  GROUP BY window_start, window_end
)
SELECT counted.auction, counted.num
FROM counted
JOIN most
  ON counted.window_start = most.window_start
  AND counted.window_end = most.window_end
  AND counted.num >= most.num;
