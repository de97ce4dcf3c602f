-- Average selling price by seller, over each closed auction and the ten before it, as the published frame has it.
SELECT
  seller,
  avg(price) OVER (
    PARTITION BY seller ORDER BY date_time, id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW
  ) AS average
FROM (
  SELECT a.id, a.seller, b.price, b.date_time
  FROM auction a JOIN bid b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
  QUALIFY row_number() OVER (PARTITION BY a.id, a.seller ORDER BY b.price DESC, b.date_time, b.extra) = 1
)
