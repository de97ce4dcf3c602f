"""A small pipeline of auctions and bids, and what its views have to be."""

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemill import Pipeline

SCRIPT = """
CREATE TABLE auctions (id BIGINT PRIMARY KEY, category STRING);
CREATE TABLE bids (auction BIGINT, price BIGINT);
CREATE VIEW best AS SELECT auction, max(price) AS m, count(*) AS n FROM bids GROUP BY auction;
CREATE VIEW by_category AS
    SELECT category, sum(price) AS total FROM bids JOIN auctions ON auction = id GROUP BY category;
"""
AUCTIONS = [{"id": 1, "category": "art"}, {"id": 2, "category": "books"}, {"id": 3, "category": "art"}]
BIDS = [{"auction": n % 4, "price": n} for n in range(20)]


def rows(pipeline: "Pipeline", name: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in pipeline.view(name))


def expected(bids: list[dict[str, int]]) -> dict[str, Counter[tuple[Any, ...]]]:
    """The views of `SCRIPT` over `AUCTIONS` and these bids."""
    prices: dict[int, list[int]] = {}
    totals: Counter[str] = Counter()
    names = {row["id"]: row["category"] for row in AUCTIONS}
    for bid in bids:
        prices.setdefault(bid["auction"], []).append(bid["price"])
        if bid["auction"] in names:
            totals[str(names[bid["auction"]])] += bid["price"]
    best = Counter((auction, max(found), len(found)) for auction, found in prices.items())
    return {"best": best, "by_category": Counter(totals.items())}


def answers(pipeline: "Pipeline") -> dict[str, Counter[tuple[Any, ...]]]:
    return {view: rows(pipeline, view) for view in ("best", "by_category")}
