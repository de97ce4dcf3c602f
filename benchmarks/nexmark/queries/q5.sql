-- Hot items: the auctions with the most bids in each ten seconds, every two seconds.
WITH counted AS (
  SELECT window, auction, count(*) AS num
  FROM bid
  GROUP BY window(date_time, '10 seconds', '2 seconds'), auction
)
SELECT counted.auction, counted.num
FROM counted
JOIN (SELECT window, max(num) AS most FROM counted GROUP BY window) best
  ON counted.window = best.window AND counted.num >= best.most
