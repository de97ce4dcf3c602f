"""Random SQL for some time, or one round of a seed again; the last line is what came of it."""

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

from property.random_sql.rounds import Limits, Tally, run
from tidemill.pipeline.runtimes.session import create_session


def main() -> int:
    parser = argparse.ArgumentParser(prog="random_sql", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--queries", type=int, help="end when so many were judged")
    parser.add_argument("--rounds", type=int, help="end after so many rounds")
    parser.add_argument("--first", type=int, default=0, help="the number of the first round")
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    parser.add_argument("--shrink", type=float, default=120, help="seconds to make a fault small; 0 for none")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    spark = create_session("random-sql", master="local[2]", settings={"spark.log.level": "OFF"})
    limits = Limits(chosen.seconds, chosen.queries, chosen.rounds)
    with tempfile.TemporaryDirectory() as folder:
        tally = run(spark, Path(folder), chosen.seed, limits, shrink_s=chosen.shrink, first=chosen.first)
    spark.stop()
    print(json.dumps(counts(tally), ensure_ascii=False) if chosen.json else told(tally))
    return 1 if tally.verdict.wrong else 0


def counts(tally: Tally) -> dict[str, object]:
    verdict = tally.verdict
    return {
        "seed": tally.seed,
        "rounds": tally.rounds,
        "queries": tally.queries,
        "judged": len(verdict.judged),
        "answers": verdict.answers,
        "rows": verdict.rows,
        "wrong": len(verdict.wrong),
        "aborted alike": dict(verdict.aborted.most_common()),
        "refused": dict(verdict.refused.most_common()),
        "refused by Spark": dict(verdict.refused_by_spark.most_common()),
        "skipped": verdict.skipped,
        "examples of refused ones": verdict.examples,
    }


def told(tally: Tally) -> str:
    lines = []
    for name, count in counts(tally).items():
        if isinstance(count, dict):
            lines.append(f"{name}: {len(count)} reasons")
            lines += [f"  {many}: {why}" for why, many in count.items()]
        else:
            lines.append(f"{name}: {count}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
