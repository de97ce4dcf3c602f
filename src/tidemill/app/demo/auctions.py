"""The rows of an auction house, whose tables are those of `auctions.sql`: people come, put up and bid."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.app.demo.chance import Numbers, chance, one_in
from tidemill.app.demo.lives import Course, Life

SCRIPT = Path(__file__).with_name("auctions.sql")

HISTORY = 500_000
BATCH = 5_000
EVENT_US = 100
ROUND = 50
"""Of so many events, each table has its share."""
_NAMES = ("Ada", "Blaise", "Carl", "Dorothy", "Emmy", "Felix", "Grace", "Hedy", "Ida", "Joan")
_CITIES = ("Aarhus", "Bergen", "Cork", "Delft", "Essen", "Faro", "Ghent", "Haarlem")
_CATEGORIES = ("art", "books", "clocks", "maps", "stamps", "toys")
_THINGS = ("globe", "lamp", "vase", "map", "print", "watch", "chair", "kite", "coin", "harp")
_OPEN = 500
"""Among so many of the last auctions one may bid."""
_ACTIVE = 400
"""So many of the last people bid."""

Make = Callable[[Numbers, Numbers], pa.Table]


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the three tables: `share` of each round of events are rows of it."""

    name: str
    share: int
    has_key: bool
    life: Life
    make: Make

    def come(self, events: int) -> int:
        return events * self.share // ROUND

    def rows(self, numbers: Numbers, versions: Numbers) -> pa.Table:
        return self.make(numbers, versions)


def house(start_us: int) -> Course:
    """The whole: its history ends at `start_us`, microseconds since 1970."""
    began_us = start_us - HISTORY * EVENT_US
    kinds = (
        Kind("people", 1, True, Life(200, 1_000, 40_000), _people),
        Kind("auctions", 3, True, Life(200, 1_000, 100_000), _auctions),
        Kind("bids", 46, False, Life(), lambda numbers, versions: _bids(numbers, versions, began_us)),
    )
    return Course(kinds, start_us, HISTORY, BATCH, EVENT_US)


def _people(numbers: Numbers, versions: Numbers) -> pa.Table:
    name = pc.binary_join_element_wise(
        _one_of(_NAMES, chance(numbers, "name", len(_NAMES))), _text(numbers), " "
    )
    city = chance(numbers * 2 + versions, "city", len(_CITIES))
    return pa.table({"id": numbers, "name": name, "city": _one_of(_CITIES, city)})


def _auctions(numbers: Numbers, versions: Numbers) -> pa.Table:
    thing = pc.binary_join_element_wise(
        _one_of(_THINGS, chance(numbers, "thing", len(_THINGS))), _text(numbers), " "
    )
    return pa.table(
        {
            "id": numbers,
            "seller": _back(numbers // 3, chance(numbers, "seller", _ACTIVE)),
            "item": thing,
            "category": _one_of(_CATEGORIES, chance(numbers * 2 + versions, "category", len(_CATEGORIES))),
            "reserve": _money(chance(numbers, "reserve", 50_000)),
        }
    )


def _bids(numbers: Numbers, versions: Numbers, began_us: int) -> pa.Table:
    last_auction, last_person = numbers * 3 // 46, numbers // 46
    open_auction = _back(last_auction, chance(numbers, "auction", _OPEN))
    hot = last_auction // 100 * 100
    bidder = _back(last_person, chance(numbers, "bidder", _ACTIVE))
    bidder -= bidder % 10 == 7  # whoever has such a number never bids
    eager = last_person // 20 * 20
    price = chance(numbers, "price", 100_000) + versions * 500
    at = began_us + numbers * (EVENT_US * ROUND) // 46
    return pa.table(
        {
            "auction": np.where(one_in(numbers, "hot", 3), hot, open_auction),
            "bidder": np.where(one_in(numbers, "eager", 10), eager, bidder),
            "price": _money(price),
            "at": pa.array(at, pa.timestamp("us", "UTC")),
        }
    )


def _back(last: Numbers, by: Numbers) -> Numbers:
    """So many before the last, and none before the first."""
    return np.asarray(np.maximum(last - by, 0))


def _one_of(values: tuple[str, ...], which: Numbers) -> pa.Array:
    return pa.array(values).take(pa.array(which))


def _text(numbers: Numbers) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _money(cents: Numbers) -> pa.Array:
    whole = pa.array(cents).cast(pa.decimal128(19, 0))
    return pc.multiply(whole, pa.scalar(Decimal("0.01"))).cast(pa.decimal128(10, 2))
