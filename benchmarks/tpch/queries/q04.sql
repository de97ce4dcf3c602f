-- Orders of a quarter with a line that was received late, by priority
SELECT o_orderpriority, count(*) AS order_count
FROM orders
WHERE o_orderdate >= DATE '{date}'
  AND o_orderdate < DATE '{date}' + INTERVAL 3 MONTHS
  AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
GROUP BY o_orderpriority
