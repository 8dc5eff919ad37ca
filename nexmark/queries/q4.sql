-- Average closing price of each category.

CREATE TABLE q4 (
  category BIGINT,
  average BIGINT
) WITH ('connector' = 'blackhole');

INSERT INTO q4
WITH closing AS (
  SELECT offer.id, offer.category, MAX(b.price) AS price
  FROM auction AS offer
  JOIN bid AS b ON offer.id = b.auction AND b.`dateTime` BETWEEN offer.`dateTime` AND offer.expires
  GROUP BY offer.id, offer.category
)
SELECT category, AVG(price) AS average FROM closing GROUP BY category;
