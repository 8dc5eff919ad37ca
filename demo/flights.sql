-- Delays of the flights that left New York City in 2013, per carrier and airport, kept up to date flight by flight.

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
  time_hour STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${data}/flights.csv',
  'format' = 'csv',
  'csv.null-literal' = 'NA'
);

SELECT
  carrier,
  origin,
  COUNT(*) AS flights,
  COUNT(DISTINCT dest) AS destinations,
  COUNT(DISTINCT tailnum) FILTER (WHERE late) AS late_planes,
  AVG(arr_delay) AS avg_arr_delay,
  AVG(gained) AS avg_gained,
  SUM(CASE WHEN late THEN 1 ELSE 0 END) AS late_flights,
  MAX(speed) AS max_speed,
  MIN(departure) AS first_departure
FROM (
  SELECT
    carrier,
    origin,
    dest,
    tailnum,
    arr_delay,
    dep_delay - arr_delay AS gained,
    arr_delay > 15 AS late,
    distance * 60 / air_time AS speed,
    CAST(REPLACE(REPLACE(time_hour, 'T', ' '), 'Z', '') AS TIMESTAMP(0)) AS departure
  FROM flights
  WHERE air_time > 0 AND distance >= 200
)
GROUP BY carrier, origin;
