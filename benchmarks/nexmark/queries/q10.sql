-- Log to files: the rows with the day and the minute that files are partitioned by. The view is the log; writing
-- its changes to files is for a sink.
SELECT auction, bidder, price, date_time, extra,
  date_format(date_time, 'yyyy-MM-dd') AS dt, date_format(date_time, 'HH:mm') AS hm
FROM bid
