-- How many bids does a person make in ten seconds by the clock on the wall?

CREATE TABLE q12 (
  bidder BIGINT,
  bid_count BIGINT,
  starttime TIMESTAMP(3),
  endtime TIMESTAMP(3)
) WITH ('connector' = 'blackhole');

CREATE VIEW bid_by_clock AS
SELECT *, PROCTIME() AS p_time FROM bid;

INSERT INTO q12
SELECT bidder, COUNT(*) AS bid_count, window_start AS starttime, window_end AS endtime
FROM TABLE(TUMBLE(TABLE bid_by_clock, DESCRIPTOR(p_time), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end;
