"""Many seeds on all cores, or one again with its whole story, in each world on its own.

python -m sim --seeds 2000       every seed from 0 to 1999
python -m sim --seed 17          one, with its trace
"""

import argparse
import multiprocessing
import os
import sys
import time

from sim.partitions.run import simulate_partitions
from sim.pipeline.run import simulate_pipeline
from sim.run import Verdict, simulate
from sim.semaphores import simulate_semaphores
from sim.tasks.run import simulate_tasks

WORLDS = {
    "nodes": simulate,
    "semaphores": simulate_semaphores,
    "partitions": simulate_partitions,
    "tasks": simulate_tasks,
    "a pipeline": simulate_pipeline,
}
ACTS = {
    "nodes": "acts under a lease",
    "semaphores": "acts in a slot",
    "partitions": "acts of handlers",
    "tasks": "runs of tasks",
    "a pipeline": "steps of pipeline workers",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="run this one seed and print its trace")
    chosen = parser.parse_args()
    if chosen.seed is not None:
        return max(show(name, run(chosen.seed)) for name, run in WORLDS.items())
    return max(sweep(name, range(chosen.first, chosen.first + chosen.seeds)) for name in WORLDS)


def show(world: str, verdict: Verdict) -> int:
    print("\n".join(verdict.trace))
    print(f"{world}, seed {verdict.seed}: {verdict.breach or 'all held'}")
    return 1 if verdict.breach else 0


def sweep(world: str, seeds: range) -> int:
    began, failed, acts, in_vain, writes, virtual = time.monotonic(), 0, 0, 0, 0, 0.0
    with multiprocessing.Pool(os.cpu_count()) as pool:
        for done, verdict in enumerate(pool.imap_unordered(WORLDS[world], seeds, chunksize=8), 1):
            acts, writes, virtual = acts + verdict.acts, writes + verdict.writes, virtual + verdict.seconds
            in_vain += verdict.in_vain
            if verdict.breach is not None:
                failed += 1
                print(
                    f"{world}, seed {verdict.seed}: {verdict.breach}\n  replay: {verdict.replay()}",
                    flush=True,
                )
            if done % 250 == 0:
                print(f"{world}: {done} of {len(seeds)} seeds", file=sys.stderr, flush=True)
    vain = f" ({in_vain:,} of them in vain)" if in_vain else ""
    print(
        f"{world}: {len(seeds)} seeds, {virtual / 3600:.1f} simulated hours, "
        f"{acts:,} {ACTS[world]}{vain}, {writes:,} accepted writes, {time.monotonic() - began:.0f} s"
    )
    print(f"{len(seeds) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
