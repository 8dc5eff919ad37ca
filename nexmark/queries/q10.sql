-- Bids in files, a folder for each day and minute.

CREATE TABLE q10 (
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  `dateTime` TIMESTAMP(3),
  extra VARCHAR,
  dt VARCHAR,
  hm VARCHAR
) PARTITIONED BY (dt, hm) WITH (
  'connector' = 'filesystem',
  'path' = 'target/q10',
  'format' = 'csv',
  'sink.partition-commit.policy.kind' = 'success-file',
  'sink.partition-commit.trigger' = 'partition-time',
  'partition.time-extractor.timestamp-pattern' = '$dt $hm:00',
  'sink.rolling-policy.rollover-interval' = '1min',
  'sink.rolling-policy.check-interval' = '1min'
);

INSERT INTO q10
SELECT
  auction, bidder, price, `dateTime`, extra,
  DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') AS dt,
  DATE_FORMAT(`dateTime`, 'HH:mm') AS hm
FROM bid;
