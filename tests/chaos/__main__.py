"""Hurt a cluster of real processes on SQLite and on PostgreSQL, and judge every write.

python -m chaos --minutes 20             both stores side by side, each for so long
python -m chaos --store postgres --seed 7
"""

import argparse
import random
import sys
from concurrent.futures import ThreadPoolExecutor

import msgspec

from chaos.report import complaints, table
from chaos.run import Plan, run_in_folder

STORES = ("sqlite", "postgres")


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long each store is under fire")
    parser.add_argument("--store", choices=STORES, help="only this one")
    parser.add_argument("--nodes", type=int, default=6, help="how many nodes there are")
    parser.add_argument("--crowd", type=int, default=100, help="how many more join at once")
    parser.add_argument("--seed", type=int, help="draws the faults; without it, any")
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    chosen = parser.parse_args()
    seed = chosen.seed if chosen.seed is not None else random.randrange(10**6)
    print(f"chaos: seed {seed}", file=sys.stderr)
    plans = [
        Plan(kind, chosen.minutes * 60, seed, chosen.nodes, chosen.crowd)
        for kind in ([chosen.store] if chosen.store else STORES)
    ]
    with ThreadPoolExecutor(len(plans)) as pool:
        verdicts = list(pool.map(run_in_folder, plans))
    print(msgspec.json.encode(verdicts).decode() if chosen.json else table(verdicts))
    for verdict in verdicts:
        if verdict.wrong:
            print(complaints(verdict), file=sys.stderr)
    return 1 if any(verdict.wrong for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
