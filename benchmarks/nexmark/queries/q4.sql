-- Average price for a category: of the highest bids that came in time.
SELECT category, avg(final) AS average
FROM (
  SELECT a.category, max(b.price) AS final
  FROM auction a JOIN bid b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
  GROUP BY a.id, a.category
)
GROUP BY category
