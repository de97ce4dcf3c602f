"""What the tables hold by now, and changes to all of them; the same ones each time for a seed.

Every new value is one that the column has elsewhere, so that filters and joins go on to select as much as
they did. Keys that were deleted come back with other values, so that what refers to them finds them again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

KEYS = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "customer": ("c_custkey",),
}
TOGETHER = (
    ("s_nationkey", "s_phone"),
    ("c_nationkey", "c_phone"),
    ("p_mfgr", "p_brand"),
    ("l_partkey", "l_suppkey", "l_quantity", "l_extendedprice"),
)
"""Columns whose values are taken from one row."""
BY_DATE = {
    *("o_orderstatus", "o_totalprice", "o_orderdate", "l_linenumber", "l_returnflag", "l_linestatus"),
    *("l_shipdate", "l_commitdate", "l_receiptdate"),
}
"""Columns that a new order, and each of its lines, has from the one that it is made after."""
PAIR = 2**32
"""A key of two columns is one number: so many times the first, and the second."""

NONE = np.empty(0, np.int64)

Change = dict[str, pa.Table]
"""By table, rows with `_weight`, for `Pipeline.apply`."""


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows of a table come, go and change in a refresh."""

    inserted: int
    deleted: int
    updated: int = 0


def counts(scale: float, share: float = 0.001) -> dict[str, Count]:
    """A share of each table that grows with the scale factor: so many orders come and as many go; of other
    rows a quarter comes, a quarter goes and a half changes. Nations and regions stay as they are."""
    orders = round(1_500_000 * scale * share)
    found = {"orders": Count(orders, orders)}
    for name, rows in (("supplier", 10_000), ("part", 200_000), ("partsupp", 800_000), ("customer", 150_000)):
        quarter = max(1, round(rows * scale * share / 4))
        found[name] = Count(quarter, quarter, 2 * quarter)
    return found


class Rows:
    """The rows that a table has had, by place, and the places of those that it has now."""

    def __init__(self, loaded: pa.Table) -> None:
        self._loaded = loaded
        self._added = loaded.slice(0, 0)
        self.live = np.arange(loaded.num_rows)

    @property
    def names(self) -> list[str]:
        return list(self._loaded.column_names)

    def numbers(self, name: str) -> np.ndarray:
        """The values that a column of numbers has now."""
        parts = [np.asarray(rows.column(name)) for rows in (self._loaded, self._added)]
        return np.concatenate(parts)[self.live]

    def take(self, places: np.ndarray, names: Sequence[str] | None = None) -> pa.Table:
        """Some or all columns of the rows of these places."""
        # Not from both at once: Arrow would put all their text into one piece first.
        is_added = places >= self._loaded.num_rows
        pieces = [
            rows.select(names or self.names).take(pa.array(of_it))
            for rows, of_it in (
                (self._loaded, places[~is_added]),
                (self._added, places[is_added] - self._loaded.num_rows),
            )
        ]
        order = np.argsort(np.argsort(is_added, kind="stable"))
        return pa.concat_tables(pieces).combine_chunks().take(pa.array(order))

    def replace(self, gone: np.ndarray, new: pa.Table) -> None:
        """From now on without the rows of some places, and with these."""
        start = self._loaded.num_rows + self._added.num_rows
        self._added = pa.concat_tables([self._added, new]).combine_chunks()
        stays = self.live[~np.isin(self.live, gone)]
        self.live = np.append(stays, np.arange(start, start + new.num_rows))


class Warehouse:
    """All tables, and refreshes of them; it holds what the tables hold after the last."""

    def __init__(self, loaded: Mapping[str, pa.Table], seed: int = 1) -> None:
        self._rows = {name: Rows(rows) for name, rows in loaded.items()}
        self._random = np.random.default_rng(seed)
        self._freed = dict.fromkeys(KEYS, NONE)
        self._last_order = int(self._rows["orders"].numbers("o_orderkey").max())

    @property
    def now(self) -> dict[str, pa.Table]:
        """The rows of every table."""
        return {name: rows.take(rows.live) for name, rows in self._rows.items()}

    def refresh(self, sizes: Mapping[str, Count]) -> Change:
        """The next change, of so many rows of each table, and of all lines of the orders among them."""
        found: Change = {}
        for name, size in sizes.items():
            found |= self._orders(size) if name == "orders" else {name: self._others(name, size)}
        return found

    def _orders(self, size: Count) -> Change:
        orders, lines = self._rows["orders"], self._rows["lineitem"]
        keys, owners = orders.numbers("o_orderkey"), lines.numbers("l_orderkey")
        chosen = self._random.choice(len(keys), size.inserted + size.deleted, replace=False)
        like, gone = chosen[: size.inserted], chosen[size.inserted :]
        like = like[np.argsort(keys[like])]
        fresh = self._last_order + 1 + np.arange(size.inserted)
        self._last_order += size.inserted
        like_lines = np.flatnonzero(np.isin(owners, keys[like]))
        fresh_owners = fresh[np.searchsorted(keys[like], owners[like_lines])]
        new_orders = self._mixed(orders, orders.live[like], {"o_orderkey": fresh})
        new_lines = self._mixed(lines, lines.live[like_lines], {"l_orderkey": fresh_owners})
        gone_lines = lines.live[np.isin(owners, keys[gone])]
        return {
            "orders": _change(orders, orders.live[gone], new_orders),
            "lineitem": _change(lines, gone_lines, new_lines),
        }

    def _others(self, name: str, size: Count) -> pa.Table:
        rows, keys = self._rows[name], self._keys(name)
        chosen = self._random.choice(len(keys), size.updated + size.deleted, replace=False)
        updated, deleted = chosen[: size.updated], chosen[size.updated :]
        new_keys = np.append(keys[updated], self._new_keys(name, keys, size.inserted))
        self._freed[name] = np.append(self._freed[name], keys[deleted])
        columns = divmod(new_keys, PAIR) if len(KEYS[name]) > 1 else (new_keys,)
        like = np.append(updated, self._random.integers(0, len(keys), size.inserted))
        new = self._mixed(rows, rows.live[like], dict(zip(KEYS[name], columns, strict=True)))
        return _change(rows, rows.live[deleted], new, rows.live[updated])

    def _keys(self, name: str) -> np.ndarray:
        first, *second = (self._rows[name].numbers(column) for column in KEYS[name])
        return first * PAIR + second[0] if second else first

    def _new_keys(self, name: str, keys: np.ndarray, count: int) -> np.ndarray:
        """Those that were freed first, and others if these are too few."""
        again, self._freed[name] = self._freed[name][:count], self._freed[name][count:]
        missing, known = count - len(again), np.concatenate([keys, again, self._freed[name]])
        if len(KEYS[name]) == 1:
            return np.append(again, known.max() + 1 + np.arange(missing))
        one, other = self._random.choice(known, (2, 8 + 2 * missing))
        pairs = np.setdiff1d(one // PAIR * PAIR + other % PAIR, known)
        return np.append(again, self._random.permutation(pairs)[:missing])

    def _mixed(self, rows: Rows, like: np.ndarray, keys: Mapping[str, np.ndarray]) -> pa.Table:
        """Rows with these keys, each in part like the one of a place and in part like any others."""
        found = {name: pa.array(values) for name, values in keys.items()}
        together = {name: group for group in TOGETHER for name in group}
        for name in rows.names:
            if name not in found:
                group = together.get(name, (name,))
                others = self._random.choice(rows.live, len(like))
                stays = (name in BY_DATE) | (self._random.random(len(like)) < 0.5)
                taken = rows.take(np.where(stays, like, others), group)
                found |= {one: taken.column(one) for one in group}
        return pa.table({name: found[name] for name in rows.names})


def _change(rows: Rows, deleted: np.ndarray, new: pa.Table, updated: np.ndarray = NONE) -> pa.Table:
    """Make the change and say it; what is inserted with a key that is there takes its place."""
    old = rows.take(deleted)
    rows.replace(np.append(deleted, updated), new)
    weights = np.append(np.ones(new.num_rows, np.int64), np.full(old.num_rows, -1))
    return pa.concat_tables([new, old]).append_column("_weight", pa.array(weights))
