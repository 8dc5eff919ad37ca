-- People who open an auction in the ten seconds in which they register.

CREATE TABLE q8 (
  id BIGINT,
  name VARCHAR,
  starttime TIMESTAMP(3)
) WITH ('connector' = 'blackhole');

INSERT INTO q8
WITH registered AS (
  SELECT id, name, window_start, window_end
  FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
  GROUP BY id, name, window_start, window_end
),
selling AS (
  SELECT seller, window_start, window_end
  FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
  GROUP BY seller, window_start, window_end
)
SELECT registered.id, registered.name, registered.window_start AS starttime
FROM registered
JOIN selling
  ON registered.id = selling.seller
  AND registered.window_start = selling.window_start
  AND registered.window_end = selling.window_end;
