"""Each store against a raw loop with the same driver, durability, document size and connections.

python benchmarks/store.py [--seconds 1.5] [--rounds 3] [--json FILE]

Our loop and the raw one take turns, round by round in one run, so that a noisy machine is noisy for
both; the table shows medians, and of the rounds' ratios the median. `raw.py` says what the raw loops do.
Each round begins on an empty database. Documents are decoded to dicts on the way out and encoded on the
way in, in both.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from raw import PAYLOAD, TTL_MS, RawPostgres, RawSqlite, key_of, needed, timed
from servers import PostgresServer
from tidemill.store import Cap, Claim, Collection, Document, Done, Store, Term, Write, eq, open_store

TASKS = Collection(
    "tasks", fields=(("queue", "text"), ("status", "integer")), indexes=(("queue", "status", "key"),)
)
QUEUED, RUNNING, FINISHED = -2, 0, 1
BATCHES = (1, 10, 100)
BODY = {"queue": "q", "status": QUEUED, **PAYLOAD}


class Ours:
    """The store's own verbs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._made = 0

    async def cas(self, seconds: float) -> float:
        key = self._key()
        state = {"revision": await self._store.create(TASKS, key, BODY)}

        async def step() -> int:
            body = {**BODY, "status": state["revision"]}
            state["revision"] = await self._store.replace(TASKS, key, body, expect=state["revision"])
            return 1

        return await timed(seconds, step)

    async def claim(self, seconds: float, batch: int, caps: Sequence[Cap] = ()) -> float:
        await self._fill(seconds, batch)
        claim = Claim(
            where=(eq("queue", "q"), eq("status", QUEUED)),
            holder="bench",
            ttl_ms=TTL_MS,
            n=batch,
            sort=("key",),
            set=(("status", RUNNING),),
            caps=tuple(caps),
        )

        async def step() -> int:
            taken = await self._store.claim(TASKS, claim)
            assert len(taken) == batch, "the benchmark ran out of documents"
            outcomes = await self._store.write([self._finished(document) for document in taken])
            assert set(map(type, outcomes)) == {Done}
            return batch

        return await timed(seconds, step)

    @staticmethod
    def _finished(taken: Document) -> Write:
        taken.body["status"] = FINISHED  # the body is the caller's own copy
        return Write(TASKS, taken.key, taken.body, Term(taken.term), release=True)

    async def _fill(self, seconds: float, batch: int) -> None:
        for _ in range(needed(seconds, batch) // 1000 + 1):
            await self._store.write([Write(TASKS, self._key(), BODY, None) for _ in range(1000)])

    def _key(self) -> str:
        self._made += 1
        return key_of(self._made)


CAP = Cap((eq("queue", "q"), eq("status", RUNNING)), 1000)


Fresh = Callable[[], Awaitable[tuple[str, Any]]]
"""A new, empty database for ours, by its address, and one for the raw loop, with its client."""


async def compare(name: str, fresh: Fresh, seconds: float, rounds: int) -> list[dict[str, Any]]:
    """Every case, ours and raw in turns, each round on empty databases."""
    cases: list[tuple[str, str, dict[str, Any]]] = [("CAS update", "cas", {})]
    cases += [(f"claim + complete, batch {n}", "claim", {"batch": n}) for n in BATCHES]
    cases.append(("claim + complete, batch 100, one cap", "claim", {"batch": 100, "caps": [CAP]}))
    rows = []
    for case, loop, options in cases:
        pairs = [await one_round(fresh, loop, options, seconds) for _ in range(rounds)]
        rows.append(summary(name, case, pairs))
        print(f"  {name}: {case}: {rows[-1]['ratio']:.2f}", file=sys.stderr, flush=True)
    return rows


async def one_round(fresh: Fresh, loop: str, options: dict[str, Any], seconds: float) -> tuple[float, float]:
    url, raw = await fresh()
    async with open_store(url, connections=1) as store:
        mine = await getattr(Ours(store), loop)(seconds, **options)
    bare = {name: value for name, value in options.items() if name != "caps"}
    theirs = await getattr(raw, loop)(seconds, **bare)
    await raw.close()
    return mine, theirs


def summary(name: str, case: str, pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    return {
        "backend": name,
        "case": case,
        "ours_per_s": round(statistics.median(mine for mine, _ in pairs)),
        "raw_per_s": round(statistics.median(theirs for _, theirs in pairs)),
        "ratio": round(statistics.median(mine / theirs for mine, theirs in pairs), 3),
        "ratios": [round(mine / theirs, 3) for mine, theirs in pairs],
    }


@contextmanager
def sqlite() -> Iterator[Fresh]:
    with tempfile.TemporaryDirectory() as folder:
        names = count()

        async def fresh() -> tuple[str, Any]:
            number = next(names)
            return f"sqlite:///{folder}/ours-{number}.db", RawSqlite(Path(folder) / f"raw-{number}.db")

        yield fresh


@contextmanager
def postgres() -> Iterator[Fresh]:
    with PostgresServer() as server:
        names = count()

        async def fresh() -> tuple[str, Any]:
            number = next(names)
            ours, raw = (server.create_database(f"{kind}_{number}") for kind in ("ours", "raw"))
            return ours, await RawPostgres.connect(raw)

        yield fresh


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--backend", choices=["sqlite", "postgres"], action="append")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, database in (("sqlite", sqlite), ("postgres", postgres)):
        if chosen.backend is None or name in chosen.backend:
            with database() as fresh:
                rows += await compare(name, fresh, chosen.seconds, chosen.rounds)
    table = Table("backend", "case", "ours /s", "raw /s", "ratio", "each round")
    for row in rows:
        cells = [row["backend"], row["case"], f"{row['ours_per_s']:,}", f"{row['raw_per_s']:,}"]
        table.add_row(*cells, f"{row['ratio']:.2f}", " ".join(f"{ratio:.2f}" for ratio in row["ratios"]))
    Console(width=110).print(table)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
