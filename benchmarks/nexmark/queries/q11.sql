-- User sessions: bids of each user until ten seconds pass without one.
SELECT bidder, count(*) AS bid_count, session_window.start AS starts, session_window.end AS ends
FROM bid
GROUP BY bidder, session_window(date_time, '10 seconds')
