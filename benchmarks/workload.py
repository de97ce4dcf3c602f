"""Auctions and bids, changes to them, and what the view must answer.

A model of both tables is kept as plain arrays next to the engine, and DuckDB answers the view's query on it.
A change of n rows is n weighted rows of bids (a half insertions, a quarter updates as deletion and insertion,
a quarter deletions) and, on top of them, n/100 auctions that get another category.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

TABLES = """
CREATE TABLE auctions (id BIGINT PRIMARY KEY, category BIGINT);
CREATE TABLE bids (auction BIGINT, price BIGINT);
"""
QUERY = (
    "SELECT category, count(*) AS n, CAST(sum(price) AS BIGINT) AS total "
    "FROM bids JOIN auctions ON auction = id GROUP BY category"
)
CATEGORIES = 1000
PRICES = 1_000_000
THREADS = 2

Answer = list[tuple[int, ...]]
"""The rows of the view, sorted."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much there is. Bids come in `pieces`, each an append."""

    auctions: int = 1_000_000
    bids: int = 10_000_000
    pieces: int = 10

    @classmethod
    def of(cls, scale: float) -> "Sizes":
        return cls(int(1_000_000 * scale), int(10_000_000 * scale))

    @property
    def piece(self) -> int:
        return self.bids // self.pieces


class Workload:
    """Makes the files to load and the changes, and follows along in its model."""

    def __init__(self, folder: Path, sizes: Sizes, seed: int = 7) -> None:
        self.sizes = sizes
        self.folder = folder
        self._random = np.random.default_rng(seed)
        self._category = np.empty(0, np.int64)
        self._bids = np.empty((2, 0), np.int64)  # auction and price; the first `_live` are there
        self._live = 0

    @property
    def bids(self) -> int:
        return self._live

    def load_auctions(self) -> Path:
        """All auctions as a folder of Parquet."""
        self._category = self._random.integers(0, CATEGORIES, self.sizes.auctions)
        return self._write("auctions", self._auctions_table())

    def load_bids(self, piece: int) -> Path:
        """One more piece of the bids as a folder of Parquet."""
        bids = self._draw(self.sizes.piece)
        self._add(bids)
        return self._write(f"bids/{piece:02}", _table(auction=bids[0], price=bids[1]))

    def load_all(self) -> None:
        """All files at once, for those who measure without the engine."""
        self.load_auctions()
        for piece in range(self.sizes.pieces):
            self.load_bids(piece)

    def change(self, rows: int) -> dict[str, pa.Table]:
        """The next change, as frames for `Pipeline.apply`; from now on part of the model."""
        inserted = self._draw(rows // 2)
        touched = self._random.choice(self._live, rows // 4 + rows // 8, replace=False)
        updated, deleted = touched[: rows // 8], touched[rows // 8 :]
        gone = self._bids[:, touched]
        self._bids[1, updated] = self._random.integers(0, PRICES, len(updated))
        bids = np.concatenate([inserted, self._bids[:, updated], gone], axis=1)
        weights = np.ones(bids.shape[1], np.int64)
        weights[-gone.shape[1] :] = -1
        self._remove(deleted)
        self._add(inserted)
        moved = self._random.choice(len(self._category), max(1, rows // 100), replace=False)
        self._category[moved] = self._random.integers(0, CATEGORIES, len(moved))
        return {
            "bids": _table(auction=bids[0], price=bids[1], _weight=weights),
            "auctions": _table(id=moved, category=self._category[moved], _weight=np.ones_like(moved)),
        }

    def answer(self) -> Answer:
        """What the view must hold now, by DuckDB."""
        return duckdb_answer(self._auctions_table(), self._bids_table())

    def write_tables(self) -> tuple[Path, Path]:
        """Auctions and bids as they are now, each as a folder of Parquet."""
        return self._write("now/auctions", self._auctions_table()), self._write(
            "now/bids", self._bids_table()
        )

    def _draw(self, rows: int) -> np.ndarray:
        auctions = self._random.integers(0, self.sizes.auctions, rows)
        return np.stack([auctions, self._random.integers(0, PRICES, rows)])

    def _add(self, bids: np.ndarray) -> None:
        end = self._live + bids.shape[1]
        if end > self._bids.shape[1]:
            grown = np.empty((2, end + end // 2), np.int64)
            grown[:, : self._live] = self._bids[:, : self._live]
            self._bids = grown
        self._bids[:, self._live : end] = bids
        self._live = end

    def _remove(self, at: np.ndarray) -> None:
        """Close the holes with rows from the end."""
        end = self._live - len(at)
        movers = np.setdiff1d(np.arange(end, self._live), at)
        self._bids[:, at[at < end]] = self._bids[:, movers]
        self._live = end

    def _auctions_table(self) -> pa.Table:
        return _table(id=np.arange(len(self._category)), category=self._category)

    def _bids_table(self) -> pa.Table:
        return _table(auction=self._bids[0, : self._live], price=self._bids[1, : self._live])

    def _write(self, name: str, table: pa.Table) -> Path:
        """Files in even number, so that each of two cores has its share to read."""
        folder = self.folder / name
        folder.mkdir(parents=True)
        half = -(-table.num_rows // THREADS)
        for at in range(THREADS):
            pq.write_table(table.slice(at * half, half), folder / f"part-{at}.parquet")
        return folder


def duckdb_answer(auctions: Any, bids: Any) -> Answer:
    """The view's query on two relations that DuckDB knows how to read."""
    with duckdb.connect(config={"threads": THREADS}) as connection:
        connection.register("auctions", auctions)
        connection.register("bids", bids)
        return sorted(connection.execute(QUERY).fetchall())


def arrow_answer(table: pa.Table) -> Answer:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _table(**columns: np.ndarray) -> pa.Table:
    return pa.table({name: pa.array(values) for name, values in columns.items()})
