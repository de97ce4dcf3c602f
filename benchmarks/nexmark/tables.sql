-- People and auctions are told by their ids, which never come twice; a bid has nothing that tells it from another.

CREATE TABLE person (
  id BIGINT PRIMARY KEY,
  name STRING,
  email_address STRING,
  credit_card STRING,
  city STRING,
  state STRING,
  date_time TIMESTAMP,
  extra STRING
);

CREATE TABLE auction (
  id BIGINT PRIMARY KEY,
  item_name STRING,
  description STRING,
  initial_bid BIGINT,
  reserve BIGINT,
  date_time TIMESTAMP,
  expires TIMESTAMP,
  seller BIGINT,
  category BIGINT,
  extra STRING
);

CREATE TABLE bid (
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  channel STRING,
  url STRING,
  date_time TIMESTAMP,
  arrived TIMESTAMP, -- processing time, written down by whoever appends
  extra STRING
);

CREATE TABLE side_input (key BIGINT PRIMARY KEY, value STRING);
