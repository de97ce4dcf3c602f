-- A house of auctions: the pipeline of `tidemill demo`. Try your own: tidemill demo --sql FILE

CREATE TABLE people (id BIGINT PRIMARY KEY, name STRING, city STRING);

CREATE TABLE auctions (
  id BIGINT PRIMARY KEY, seller BIGINT, item STRING, category STRING, reserve DECIMAL(10, 2)
);

CREATE TABLE bids (auction BIGINT, bidder BIGINT, price DECIMAL(10, 2), at TIMESTAMP);

-- What each category brings.
CREATE VIEW sales AS
  SELECT category, count(*) AS bids, sum(price) AS total, max(price) AS best
  FROM bids JOIN auctions ON auction = id GROUP BY category;

-- What most is bid for in the last ten seconds.
CREATE VIEW hot AS
  SELECT row_number() OVER (ORDER BY count(*) DESC, id) AS place, item, count(*) AS bids, max(price) AS best
  FROM bids JOIN auctions ON auction = id
  WHERE at > now() - INTERVAL 10 SECONDS
  GROUP BY id, item QUALIFY place <= 5;

-- The three highest bids of each auction.
CREATE VIEW podium AS
  SELECT auction, row_number() OVER (PARTITION BY auction ORDER BY price DESC, at, bidder) AS place, price, bidder
  FROM bids QUALIFY place <= 3;

-- Who bids again and again, with less than two seconds in between.
CREATE VIEW sprees AS
  SELECT bidder, session_window(at, '2 seconds').start AS since, count(*) AS bids, sum(price) AS total
  FROM bids GROUP BY bidder, session_window(at, '2 seconds') HAVING count(*) >= 5;

-- Who sells and never bids.
CREATE VIEW sellers AS
  SELECT city, count(*) AS people
  FROM people
  WHERE EXISTS (SELECT * FROM auctions WHERE seller = people.id)
    AND NOT EXISTS (SELECT * FROM bids WHERE bidder = people.id)
  GROUP BY city;
