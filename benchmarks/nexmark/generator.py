"""People, auctions and bids by range of events: seed and range say what the rows are, however it is cut.

Of each fifty events one is a person, three are auctions and 46 are bids. What an event refers to follows from
its number: people and auctions get their ids in order, so nothing has to be remembered. As published, a few
ids are referred to before they are there.

The published generator adds the first id to a bidder twice, so that bidders are not people; here it is added
once, which the join of bids with people needs.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nexmark.chance import Chance, Numbers

CYCLE = 50
PEOPLE = 1
AUCTIONS = 3
FIRST_ID = 1000
FIRST_CATEGORY = 10
CATEGORIES = 5
LEAD = 10
"""So many ids that are yet to come may be referred to."""
HOT = 100
"""One in so many people and auctions is hot."""
PERSON_BYTES, AUCTION_BYTES, BID_BYTES = 200, 500, 100
SIDE_INPUT = 10_000

_STATES = pa.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
# fmt: off
_CITIES = pa.array([
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent",
    "Cheyenne",
])
_FIRST_NAMES = pa.array([
    "Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter",
])
_LAST_NAMES = pa.array([
    "Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris",
])
# fmt: on
_DIGITS = pc.utf8_lpad(pa.array(range(10_000)).cast(pa.string()), 4, "0")
_HOT_CHANNELS = pa.array(["Google", "Facebook", "Baidu", "Apple"])
_CHANNELS = 10_000
_TIMESTAMP = pa.timestamp("us", "UTC")

Events = dict[str, pa.Table]
"""The rows of a range, by table."""


@dataclass(frozen=True)
class Nexmark:
    """All events there could be. A ratio of n says that all but one in n go to what is hot.

    `rate` is in events a second of event time; within each `out_of_order` events they come in another order
    than that of their times, as if some had been on the way for longer.
    """

    seed: int = 1
    rate: int = 10_000
    start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    out_of_order: int = 1
    in_flight_auctions: int = 100
    active_people: int = 1000
    hot_auctions: int = 2
    hot_sellers: int = 4
    hot_bidders: int = 4
    hot_channels: int = 2

    def events(self, first: int, last: int) -> Events:
        """The events from `first` to before `last`."""
        at = np.arange(first, last)
        place = at % CYCLE
        return {
            "person": self.people(at[place < PEOPLE]),
            "auction": self.auctions(at[(place >= PEOPLE) & (place < PEOPLE + AUCTIONS)]),
            "bid": self.bids(at[place >= PEOPLE + AUCTIONS]),
        }

    def people(self, at: Numbers) -> pa.Table:
        """The people of these events."""
        draw = self._chance
        name = _joined(
            draw.choice("first name", at, _FIRST_NAMES), draw.choice("last name", at, _LAST_NAMES), " "
        )
        email = _joined(self._words("user", at, 7), _joined(self._words("host", at, 5), "com", "."), "@")
        card = _joined(*(draw.choice(f"card {part}", at, _DIGITS) for part in range(4)), " ")
        city, state = draw.choice("city", at, _CITIES), draw.choice("state", at, _STATES)
        size = 8 + _sizes(name, email, card, city, state)
        return pa.table(
            {
                "id": FIRST_ID + last_person(at),
                "name": name,
                "email_address": email,
                "credit_card": card,
                "city": city,
                "state": state,
                "date_time": self._time(at),
                "extra": self._extra(at, size, PERSON_BYTES),
            }
        )

    def auctions(self, at: Numbers) -> pa.Table:
        """The auctions of these events. They are open until about `in_flight_auctions` more have come."""
        draw = self._chance
        item, description = self._words("item", at, 20), self._words("description", at, 100)
        first_bid = self._price("initial bid", at)
        ahead = self.in_flight_auctions * CYCLE // AUCTIONS
        horizon = self._ms(self._shuffled(at) + ahead) - self._ms(self._shuffled(at))
        open_ms = 1 + draw.below("length", at, np.maximum(horizon * 2, 1))
        return pa.table(
            {
                "id": FIRST_ID + last_auction(at),
                "item_name": item,
                "description": description,
                "initial_bid": first_bid,
                "reserve": first_bid + self._price("reserve", at),
                "date_time": self._time(at),
                "expires": _timestamps(self._ms(self._shuffled(at)) + open_ms),
                "seller": self._person("seller", at, self.hot_sellers, last_person(at) // HOT * HOT),
                "category": FIRST_CATEGORY + draw.below("category", at, CATEGORIES),
                "extra": self._extra(at, 48 + _sizes(item, description), AUCTION_BYTES),
            }
        )

    def bids(self, at: Numbers) -> pa.Table:
        """The bids of these events. `arrived` is when they come, by the same clock as their times."""
        last = last_auction(at)
        oldest = np.maximum(last - self.in_flight_auctions, 0)
        cold = oldest + self._chance.below("auction", at, last - oldest + 1 + LEAD)
        hot = self._is_hot("hot auction", at, self.hot_auctions)
        names, urls = self._channels
        channel = pa.array(self._channel(at))
        # The second person, so that hot bidders are not the hot sellers.
        hot_bidder = last_person(at) // HOT * HOT + 1
        return pa.table(
            {
                "auction": FIRST_ID + np.where(hot, last // HOT * HOT, cold),
                "bidder": self._person("bidder", at, self.hot_bidders, hot_bidder),
                "price": self._price("price", at),
                "channel": names.take(channel),
                "url": urls.take(channel),
                "date_time": self._time(at),
                "arrived": _timestamps(self._ms(at)),
                "extra": self._extra(at, np.full(len(at), 32), BID_BYTES),
            }
        )

    @cached_property
    def _chance(self) -> Chance:
        return Chance(self.seed)

    @cached_property
    def _channels(self) -> tuple[pa.Array, pa.Array]:
        """Names and addresses of all channels, the hot ones first. One in ten of the others has no id."""
        at = np.arange(len(_HOT_CHANNELS) + _CHANNELS)
        number = at[len(_HOT_CHANNELS) :] - len(_HOT_CHANNELS)
        folders = (self._words(f"folder {part}", at, 5, spaces=False) for part in range(3))
        urls = _joined("https://www.nexmark.com", *folders, "item.htm?query=1", "/")
        ids = pa.array(self._chance.below("channel id", number, 2**31)).cast(pa.string())
        without = pa.array(self._chance.below("no channel id", number, 10) == 0)
        known = pc.if_else(without, "", pc.binary_join_element_wise("&channel_id=", ids, ""))
        ends = pa.concat_arrays([pa.array([""] * len(_HOT_CHANNELS)), known])
        names = _joined("channel", pa.array(number).cast(pa.string()), "-")
        return pa.concat_arrays([_HOT_CHANNELS, names]), _joined(urls, ends, "")

    def _channel(self, at: Numbers) -> Numbers:
        """Places in `_channels`."""
        hot = self._chance.below("hot channel", at, len(_HOT_CHANNELS))
        cold = len(_HOT_CHANNELS) + self._chance.below("channel", at, _CHANNELS)
        return np.where(self._is_hot("channel is hot", at, self.hot_channels), hot, cold)

    def _person(self, what: str, at: Numbers, ratio: int, hot: Numbers) -> Numbers:
        """The id of the hot one or of any active person."""
        people = last_person(at) + 1
        active = np.minimum(people, self.active_people)
        cold = people - active + self._chance.below(what, at, active + LEAD)
        return FIRST_ID + np.where(self._is_hot(f"hot {what}", at, ratio), hot, cold)

    def _is_hot(self, what: str, at: Numbers, ratio: int) -> Numbers:
        return self._chance.below(what, at, ratio) > 0

    def _price(self, what: str, at: Numbers) -> Numbers:
        """In cents, from 1 to a million dollars, as many in each order of magnitude."""
        return np.rint(10 ** (self._chance.fraction(what, at) * 6) * 100).astype(np.int64)

    def _words(self, what: str, at: Numbers, most: int, *, spaces: bool = True) -> pa.Array:
        """From three to less than `most` signs."""
        lengths = 3 + self._chance.below(f"{what} length", at, most - 3)
        return pc.utf8_trim_whitespace(self._chance.text(what, at, lengths, spaces=spaces))

    def _extra(self, at: Numbers, size: Numbers, wanted: int) -> pa.Array:
        """Text that brings a row to the wanted size, give or take a fifth of what is missing."""
        missing = np.maximum(wanted - size, 0)
        spread = np.rint(missing * 0.2).astype(np.int64)
        lengths = missing - spread + self._chance.below("extra length", at, np.maximum(2 * spread, 1))
        return self._chance.text("extra", at, lengths)

    def _shuffled(self, at: Numbers) -> Numbers:
        """The numbers whose times these events have."""
        return at // self.out_of_order * self.out_of_order + at * 953 % self.out_of_order

    def _time(self, at: Numbers) -> pa.Array:
        return _timestamps(self._ms(self._shuffled(at)))

    def _ms(self, at: Numbers) -> Numbers:
        """When an event of that number is due, in milliseconds since 1970."""
        return int(self.start.timestamp() * 1000) + at * 1000 // self.rate


def last_person(at: Numbers) -> Numbers:
    """The latest person at these events, from 0 on; with a person, itself."""
    return at // CYCLE * PEOPLE


def last_auction(at: Numbers) -> Numbers:
    """The latest auction at these events, from 0 on; with an auction, itself. -1 at the very first event."""
    return at // CYCLE * AUCTIONS + np.clip(at % CYCLE - PEOPLE, -1, AUCTIONS - 1)


def side_input() -> pa.Table:
    """The table that bids are looked up in: numbers and their text."""
    numbers = pa.array(range(SIDE_INPUT))
    return pa.table({"key": numbers, "value": numbers.cast(pa.string())})


def _joined(*parts: pa.Array | str) -> pa.Array:
    """The parts with the last of them between each two."""
    return pc.binary_join_element_wise(*parts)


def _sizes(*texts: pa.Array) -> Numbers:
    return np.add.reduce([pc.binary_length(text).to_numpy() for text in texts]).astype(np.int64)


def _timestamps(milliseconds: Numbers) -> pa.Array:
    return pa.array(milliseconds * 1000, _TIMESTAMP)
