"""How long the cluster is without a leader after `kill -9`, with the default lease of 5 s.

python benchmarks/failover.py [--kills 5]

Three processes; the leader writes under its fence every 10 ms. The leader is killed; the time runs from
there to the first write that the store accepted from another. The lease and a second is the bar.
"""

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from crash.processes import agents, event, first_to
from servers import PostgresServer


async def failovers(url: str, kills: int) -> list[float]:
    """Seconds from each kill to the next leader's first accepted write."""
    gaps: list[float] = []
    async with agents(url) as running:
        term = 0
        for _ in range(kills):
            leader, wrote = await first_to(running, "wrote", above=term)
            term = wrote["term"]
            killed = time.monotonic()
            await leader.kill()
            heir, took = await first_to([one for one in running if one is not leader], "wrote", above=term)
            gaps.append(took["at"] - killed)
            print(f"  {leader.name} killed, {heir.name} wrote {gaps[-1]:.2f} s later", file=sys.stderr)
            leader.said.clear()
            await leader.start()
            await leader.wait_for(event("joined"))
            await heir.wait_for(event("wrote", above=term))
    return gaps


@contextlib.contextmanager
def databases() -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as server:
        yield {"sqlite": f"sqlite:///{folder}/store.db", "postgres": server.create_database("failover")}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=5)
    chosen = parser.parse_args()
    with databases() as urls:
        for name, url in urls.items():
            gaps = await failovers(url, chosen.kills)
            print(
                f"{name}: {len(gaps)} kills, first write of the next leader after "
                f"{min(gaps):.2f} to {max(gaps):.2f} s (bar 6.00)"
            )


if __name__ == "__main__":
    asyncio.run(main())
