-- Who sells in category 10, and lives in Oregon, Idaho or California?

CREATE TABLE q3 (
  name VARCHAR,
  city VARCHAR,
  state VARCHAR,
  id BIGINT
) WITH ('connector' = 'blackhole');

INSERT INTO q3
SELECT seller.name, seller.city, seller.state, offer.id
FROM auction AS offer
JOIN person AS seller ON offer.seller = seller.id
WHERE offer.category = 10 AND seller.state IN ('OR', 'ID', 'CA');
