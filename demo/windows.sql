-- Windows over the flights that left New York City in 2013, by the hour that they were scheduled for. The file goes by when they left, so that hours
-- come out of order: without a delay many flights are late, with a day of delay none is. Run with make demo SQL=demo/windows.sql.

CREATE TABLE flights (
  `year` INT,
  `month` INT,
  `day` INT,
  dep_time INT,
  sched_dep_time INT,
  dep_delay INT,
  arr_time INT,
  sched_arr_time INT,
  arr_delay INT,
  carrier STRING,
  flight INT,
  tailnum STRING,
  origin STRING,
  dest STRING,
  air_time INT,
  distance INT,
  `hour` INT,
  `minute` INT,
  time_hour STRING,
  departure AS CAST(REPLACE(REPLACE(time_hour, 'T', ' '), 'Z', '') AS TIMESTAMP(3))
) WITH (
  'connector' = 'filesystem',
  'path' = '${data}/flights.csv',
  'format' = 'csv',
  'csv.null-literal' = 'NA'
);

CREATE TABLE at_once (WATERMARK FOR departure AS departure) LIKE flights;

CREATE TABLE a_day_later (WATERMARK FOR departure AS departure - INTERVAL '1' DAY) LIKE flights;

SELECT 'hours at once' AS windows, origin AS k, window_start, window_end, COUNT(*) AS flights, SUM(dep_delay) AS delays, COUNT(DISTINCT carrier) AS carriers
FROM TABLE(TUMBLE(TABLE at_once, DESCRIPTOR(departure), INTERVAL '1' HOUR)) GROUP BY origin, window_start, window_end
UNION ALL
SELECT 'hours a day later', origin, window_start, window_end, COUNT(*), SUM(dep_delay), COUNT(DISTINCT carrier)
FROM TABLE(TUMBLE(TABLE a_day_later, DESCRIPTOR(departure), INTERVAL '1' HOUR)) GROUP BY origin, window_start, window_end
UNION ALL
SELECT 'days at once', carrier, window_start, window_end, COUNT(*), MAX(dep_delay), COUNT(DISTINCT dest)
FROM TABLE(HOP(TABLE at_once, DESCRIPTOR(departure), INTERVAL '6' HOUR, INTERVAL '1' DAY)) GROUP BY carrier, window_start, window_end
UNION ALL
SELECT 'days a day later', carrier, window_start, window_end, COUNT(*), MAX(dep_delay), COUNT(DISTINCT dest)
FROM TABLE(HOP(TABLE a_day_later, DESCRIPTOR(departure), INTERVAL '6' HOUR, INTERVAL '1' DAY)) GROUP BY carrier, window_start, window_end
UNION ALL
SELECT 'sessions at once', tailnum, window_start, window_end, COUNT(*), SUM(distance), COUNT(DISTINCT dest)
FROM TABLE(SESSION(TABLE at_once PARTITION BY tailnum, DESCRIPTOR(departure), INTERVAL '8' HOUR)) GROUP BY tailnum, window_start, window_end
UNION ALL
SELECT 'sessions a day later', tailnum, window_start, window_end, COUNT(*), SUM(distance), COUNT(DISTINCT dest)
FROM TABLE(SESSION(TABLE a_day_later PARTITION BY tailnum, DESCRIPTOR(departure), INTERVAL '8' HOUR)) GROUP BY tailnum, window_start, window_end;
