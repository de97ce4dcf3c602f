"""A view that follows its tables: three appends, three steps, and what each of them changed.

    .venv/bin/python examples/02_pipeline.py

Starts Spark in this process; the pipeline's folder is a temporary one.
"""

import tempfile

import tidemill

TABLES = """
    CREATE TABLE auctions (id BIGINT PRIMARY KEY, category STRING);
    CREATE TABLE bids (auction BIGINT, price DECIMAL(12, 2));
    CREATE VIEW sales AS
      SELECT category, count(*) AS bids, sum(price) AS total, max(price) AS best
      FROM bids JOIN auctions ON auction = id
      GROUP BY category;
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, tidemill.Pipeline(None, folder) as p:
        p.sql(TABLES)
        print(p.explain(), "\n")

        p.insert("auctions", [{"id": 1, "category": "art"}, {"id": 2, "category": "books"}])
        p.insert(
            "bids", [{"auction": 1, "price": 250}, {"auction": 2, "price": 12}, {"auction": 2, "price": 15}]
        )
        show(p, "two auctions, three bids")

        p.delete("bids", [{"auction": 2, "price": 15}])
        show(p, "the best bid on books is withdrawn")

        p.insert("auctions", [{"id": 2, "category": "art"}])
        show(p, "auction 2 was art all along")


def show(p: tidemill.Pipeline, what: str) -> None:
    record = p.step()
    print(f"step {record.number}: {what} ({record.seconds * 1000:.0f} ms)")
    print(p.changes("sales", since=record.number - 1).to_pandas().to_string(index=False), "\n")


if __name__ == "__main__":
    main()
