-- The ten highest bids of each auction, with their rank; equal prices by time, then text.
SELECT auction, bidder, price, channel, url, date_time, extra,
  row_number() OVER (PARTITION BY auction ORDER BY price DESC, date_time, extra) AS rank_number
FROM bid
QUALIFY rank_number <= 10
