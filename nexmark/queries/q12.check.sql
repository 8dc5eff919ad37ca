-- Query 12 as it can be compared: which window a bid falls into depends on the clock, how many bids a person makes does not. Shorter
-- windows, which end while the table lingers after its last event, added up.

ALTER TABLE nexmark SET ('linger' = '3 s');

CREATE TABLE q12 (
  bidder BIGINT,
  bid_count BIGINT
) WITH ('connector' = 'blackhole');

CREATE VIEW bid_by_clock AS
SELECT *, PROCTIME() AS p_time FROM bid;

INSERT INTO q12
SELECT bidder, SUM(bid_count) AS bid_count
FROM (
  SELECT bidder, COUNT(*) AS bid_count, window_start AS starttime, window_end AS endtime
  FROM TABLE(TUMBLE(TABLE bid_by_clock, DESCRIPTOR(p_time), INTERVAL '1' SECOND))
  GROUP BY bidder, window_start, window_end
)
GROUP BY bidder;
