"""Remote workers: small and large jobs through a node, and what it holds for workers that wait.

python benchmarks/workers.py [--only sqlite,rate-plain-8,raw] [--quick] [--rounds 3] [--json FILE]

A real node (`tidemill up`) on an empty store for each trial; workers and submitters are in this process.
Beside it, in the same run: a loop on the bare store that submits, claims and completes, and an echo over bare
WebSockets. They take turns, round by round, so that a noisy machine is noisy for all; rates are the best of
the rounds, memory is the most of them. `workers_trials.py` says what each figure is.
"""

import argparse
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import uvloop
from websockets.exceptions import WebSocketException

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from servers import ServerMissing
from task_peers.catalogue import Place
from tasks_places import Places, disk_of_stores
from tidemill.store import StoreError
from workers_node import NodeFailed
from workers_raw import LOOPS, echo_loop, store_loop
from workers_report import Row, report
from workers_trials import QUICK, SMALL, Crewed, Figures, Sizes, idle, large, rates

PLACES: tuple[Place, ...] = ("sqlite", "postgres")
RATES = {
    "rate-plain-1": ("1, plain", Crewed(1)),
    "rate-plain-8": ("8, plain", Crewed(8)),
    "rate-plain-200": ("200, plain", Crewed(200)),
    "rate-v1-8": ("8, v1 with 4 slots", Crewed(8, 4)),
}
LARGE = {
    "large-v1": ("v1 worker, one at a time", Crewed(1, 4)),
    "large-v1-4": ("v1 worker, 4 at a time", Crewed(1, 4, at_once=4)),
    "large-plain": ("plain worker, one at a time", Crewed(1)),
}
ECHOES = (1, 8, 200)
FAILURES = (
    NodeFailed,
    ServerMissing,
    StoreError,
    WebSocketException,
    OSError,  # of which a lost connection and a timeout are some
    EOFError,
    RuntimeError,
    AssertionError,
)

Trial = Callable[[str], Awaitable[Figures]]
"""A trial on the store at an address."""


def trials(sizes: Sizes) -> dict[str, tuple[str, Trial]]:
    """What is measured on each store, by its key: its title, and how."""
    of_rates = {key: (title, partial(rates, crewed=who, sizes=sizes)) for key, (title, who) in RATES.items()}
    of_large = {key: (title, partial(large, crewed=who, sizes=sizes)) for key, (title, who) in LARGE.items()}

    async def raw(url: str, loops: int) -> Figures:
        return {"rate": await store_loop(url, SMALL, loops, sizes.raw_s)}

    loops = {
        f"raw-{n}": (f"raw submit, claim and complete, {n} at a time", partial(raw, loops=n)) for n in LOOPS
    }
    waiting = {"idle": ("idle workers", partial(idle, sizes=sizes))}
    return {**of_rates, **loops, **of_large, **waiting}


async def attempt(row: Row, trial: Callable[[], Awaitable[Figures]]) -> None:
    """Do a trial. What goes wrong is noted in the row."""
    name = f"{row.trial} {row.place}".strip()
    try:
        figures = await trial()
    except FAILURES as error:
        row.failures.append(f"{type(error).__name__}: {error}")
        tell(f"  {name} failed: {row.failures[-1]}")
        return
    row.add(figures)
    tell(f"  {name}: " + ", ".join(f"{what} {figure:,.2f}" for what, figure in figures.items()))


async def on(places: Places, place: Place, trial: Trial) -> Figures:
    """A trial on an empty store."""
    with places.empty(place) as url:
        return await trial(url)


async def run(sizes: Sizes, wanted: Callable[[str], bool], stores: list[Place]) -> list[Row]:
    known = {key: trial for key, trial in trials(sizes).items() if wanted(key)}
    rows = {(key, place): Row(key, place, known[key][0]) for place in stores for key in known}
    echoes = {
        count: Row(f"echo-{count}", "", f"echo, {count} connections")
        for count in ECHOES
        if wanted(f"echo-{count}")
    }
    with Places() as places:
        for number in range(sizes.rounds):
            tell(f"round {number + 1} of {sizes.rounds}")
            for (key, place), row in rows.items():
                if number == 0 or key != "idle":  # which takes long, and varies little
                    await attempt(row, partial(on, places, place, known[key][1]))
            for count, row in echoes.items():
                await attempt(row, partial(echo, count, sizes.raw_s))
    return [*rows.values(), *echoes.values()]


async def echo(connections: int, seconds: float) -> Figures:
    return {"rate": await echo_loop(SMALL, connections, seconds)}


def chosen(only: str | None) -> tuple[Callable[[str], bool], list[Place]]:
    """Which trials and which stores are named; all where none is."""
    words = only.split(",") if only else []
    stores = [place for place in PLACES if place in words] or list(PLACES)
    keys = tuple(word for word in words if word not in PLACES)
    return (lambda key: not keys or key.startswith(keys)), stores


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="stores, and keys of trials or their beginnings, with commas between")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, once")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    sizes = QUICK if asked.quick else Sizes()
    if asked.rounds:
        sizes = replace(sizes, rounds=asked.rounds)
    rows = uvloop.run(run(sizes, *chosen(asked.only)))
    print(f"Stores are on {disk_of_stores()}.\n\n{report(rows)}")
    if asked.json is not None:
        asked.json.write_text(json.dumps([row.as_json() for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
