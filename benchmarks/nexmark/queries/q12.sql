-- Processing time windows: bids of each user in ten seconds, by the time at which they arrived.
SELECT bidder, count(*) AS bid_count, window.start AS starts, window.end AS ends
FROM bid
GROUP BY bidder, window(arrived, '10 seconds')
