"""Tasks: ours against the task queues that people use, on one machine in one run.

python benchmarks/tasks.py [--only ours,huey-pg,raw] [--quick] [--rounds 3] [--tasks N] [--json FILE]

The peers are installed into an environment of their own (`task_peers/requirements.txt`, under .cache), and
`task_peers/catalogue.py` says how each is run. Systems take turns, round by round, so that a noisy machine is
noisy for all; throughput is the best of the rounds. `tasks_trials.py` says what each figure is. A peer that
fails has the reason below the table, and the others go on.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import tasks_raw
from servers import ServerMissing
from task_peers.catalogue import DURABILITY, Place, chosen
from tasks_crew import PEERS, TrialFailed
from tasks_places import Places, disk_of_stores
from tasks_report import Row, bars, failures, notes, table
from tasks_trials import QUICK, Sizes, attention, killing, throughput

ROOT = Path(__file__).parent.parent
REQUIREMENTS = Path(__file__).parent / "task_peers" / "requirements.txt"
RAW_S = 2.5

Raw = dict[str, list[float]]


def install_peers() -> None:
    """Have the peers' environment as the requirements want it; nothing happens when it is so already."""
    stamp = PEERS / "requirements.txt"
    if stamp.exists() and stamp.read_text() == REQUIREMENTS.read_text():
        return
    tell(f"installing the peers into {PEERS.relative_to(ROOT)}")
    uv = str(ROOT / "scripts" / "uv")
    subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, PEERS], check=True)
    into = ["--python", str(PEERS / "bin" / "python"), "-r", str(REQUIREMENTS)]
    subprocess.run([uv, "pip", "install", "--quiet", *into], check=True)
    stamp.write_text(REQUIREMENTS.read_text())


def attempt(row: Row, name: str, trial: Callable[[], dict[str, float | None]]) -> None:
    """Do a trial. What goes wrong is noted in the row."""
    try:
        figures = trial()
    except (TrialFailed, ServerMissing, OSError, RuntimeError) as error:
        row.failures.append((name, str(error)))
        tell(f"  {row.system.key}: {name} failed: {error}")
        return
    row.add(figures)
    said = ", ".join(f"{what} {figure:,.1f}" for what, figure in figures.items() if figure is not None)
    tell(f"  {row.system.key}: {said}")


def measure_raw(places: Places, rates: Raw) -> None:
    loops: dict[Place, Callable[[str, int, float], float]] = {
        "sqlite": tasks_raw.sqlite,
        "postgres": tasks_raw.postgres,
    }
    for place, loop in loops.items():
        for batch in tasks_raw.BATCHES:
            try:
                with places.empty(place) as url:
                    rate = loop(url, batch, RAW_S)
            except ServerMissing as missing:
                tell(f"  raw {place}: {missing}")
                continue
            rates.setdefault(f"{DURABILITY[place]}; batch {batch}", []).append(rate)
            tell(f"  raw {place}, batch {batch}: {rate:,.0f}")


def run(rows: list[Row], sizes: Sizes, with_raw: bool) -> Raw:
    raw: Raw = {}
    with Places() as places:
        for number in range(sizes.rounds):
            tell(f"throughput, round {number + 1} of {sizes.rounds}")
            for row in rows:
                attempt(row, "throughput", lambda row=row: throughput(places, row.system, sizes))  # type: ignore[misc]
            if with_raw:
                measure_raw(places, raw)
        tell("latency and idle cost")
        for row in rows:
            attempt(row, "latency", lambda row=row: attention(places, row.system, sizes))  # type: ignore[misc]
        tell("kill -9")
        for row in rows:
            # Neither a second node nor the broker's persistence makes a difference to a worker's death.
            if row.system.place != "redis-aof" and row.system.key != "ours-pg-2":
                attempt(row, "kill", lambda row=row: killing(places, row.system, sizes))  # type: ignore[misc]
    return raw


def report(rows: list[Row], raw: Raw) -> str:
    parts = [f"Stores are on {disk_of_stores()}.", table(rows, raw), notes(rows), bars(rows)]
    if failed := failures(rows):
        parts.append(f"Failed:\n\n{failed}")
    return "\n\n".join(parts)


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", help="keys of systems, or their beginnings, with commas between; raw is one"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, once")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--tasks", type=int, help="the same number of tasks for all")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    given: dict[str, Any] = {
        name: getattr(asked, name) for name in ("rounds", "tasks") if getattr(asked, name)
    }
    sizes = replace(QUICK if asked.quick else Sizes(), **given)
    systems = chosen(asked.only)
    if not all(system.ours for system in systems):
        install_peers()
    rows = [Row(system, sizes.of(system)) for system in systems]
    raw = run(rows, sizes, asked.only is None or "raw" in asked.only.split(","))
    print(report(rows, raw))
    if asked.json is not None:
        found = {"rows": [row.as_json() for row in rows], "raw": raw}
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
