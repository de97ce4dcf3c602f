-- Highest bid of each ten seconds.
SELECT b.auction, b.price, b.bidder, b.date_time, b.extra
FROM bid b
JOIN (
  SELECT max(price) AS highest, window.end AS ends FROM bid GROUP BY window(date_time, '10 seconds')
) best
  ON b.price = best.highest AND b.date_time BETWEEN best.ends - INTERVAL 10 SECONDS AND best.ends
