"""Views that are created and dropped while a pipeline has rows: what they share, keep and let go."""

import datetime as dt
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from property.judge import create, rows
from tidemill.api.pipeline import Pipeline

pytestmark = pytest.mark.timeout(180)

TABLES = """
CREATE TABLE people (id BIGINT PRIMARY KEY, city STRING);
CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, at TIMESTAMP, note STRING)
"""

# Of every operator that puts out nothing before all changes of a step have come.
OLDER = {
    "grouped": "SELECT bidder, sum(price) AS s, max(price) AS m FROM bids GROUP BY bidder",
    "collected": "SELECT auction, collect_list(price) AS l FROM bids GROUP BY auction",
    "told_apart": "SELECT DISTINCT bidder % 3 AS b FROM bids",
    "best": "SELECT * FROM bids QUALIFY row_number() OVER (PARTITION BY auction ORDER BY price DESC) = 1",
    "ranked": "SELECT auction, price, sum(price) OVER (PARTITION BY auction ORDER BY price) AS s FROM bids",
    "sessions": """SELECT session_window(at, '5 seconds').start AS s, bidder, count(*) AS n
        FROM bids GROUP BY session_window(at, '5 seconds'), bidder""",
    "strangers": "SELECT auction, city FROM bids LEFT JOIN people ON bidder = id",
    "dear": "SELECT auction FROM bids WHERE price > (SELECT avg(price) FROM bids)",
    "reach": """WITH RECURSIVE r (a) AS (
        SELECT min(auction) FROM bids UNION ALL SELECT a + 1 FROM r WHERE a < 4) SELECT a FROM r""",
}


PEOPLE = [{"id": 0, "city": "Ulm"}, {"id": 1, "city": "Bonn"}, {"id": 2, "city": "Ulm"}]
NEW_YEAR = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def bids(numbers: range) -> list[dict[str, object]]:
    return [
        {
            "auction": number % 4,
            "bidder": number % 5,
            "price": number,
            "at": NEW_YEAR + dt.timedelta(seconds=number * 7 % 60),
            "note": f"{number:0500d}",
        }
        for number in numbers
    ]


# Filling


def test_a_late_view_has_what_an_older_one_has_with_what_waited(spark: SparkSession, folder: Path) -> None:
    late = {f"late_{name}": f"SELECT * FROM {name}" for name in OLDER}
    with Pipeline(spark, folder, runtime="inline") as p:
        p.sql(TABLES)
        create(p, OLDER)
        p.insert("people", PEOPLE)
        p.insert("bids", bids(range(20)))
        p.step()
        p.insert("bids", bids(range(20, 40)))
        p.delete("bids", bids(range(3, 9)))
        create(p, late)
        for more in (range(40, 45), range(45, 46)):
            p.step()

            older = {name: rows(p, name) for name in OLDER}
            assert {name: rows(p, f"late_{name}") for name in OLDER} == older
            assert all(older.values())
            p.insert("bids", bids(more))
