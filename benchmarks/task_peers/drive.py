"""The producer's side of a trial, as a process of its own: python -m task_peers.drive MODULE VERB NUMBER…

Prints one line of JSON. Ends without farewell, as what it sent must live without it.

    prepare                  make what an empty store needs
    enqueue ONE MANY         send ONE tasks one at a time, then MANY at once; a rate for each, some of the ids
    check ID…                the results of these tasks, which must have ended
    latency N                times from sending to result, of N tasks in turn
    slow N                   send N tasks of 50 ms
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

SAMPLE = 50
WARM_UP = 20


def prepare(system: Any) -> dict[str, Any]:
    system.prepare()
    return {}


def enqueue(system: Any, one: str, many: str) -> dict[str, Any]:
    """Without a way to send many at once, those too are sent one at a time."""
    singles, rest = range(int(one)), range(int(one), int(one) + int(many))
    bulk = getattr(system, "send_all", None)
    if bulk is None:
        singles, rest = range(int(one) + int(many)), range(0)
    system.send(singles[0])  # connects; not counted
    ids, single_s = _timed(lambda: [system.send(i) for i in singles[1:]])
    answer: dict[str, Any] = {"sent": len(singles) + len(rest), "single": len(ids) / single_s, "bulk": None}
    if bulk is not None and rest:
        more, bulk_s = _timed(lambda: bulk(rest))
        ids += more
        answer["bulk"] = len(rest) / bulk_s
    sample = {*ids[:: max(1, len(ids) // SAMPLE)], ids[-1]}
    return answer | {"ids": list(sample)}


def check(system: Any, *ids: str) -> dict[str, Any]:
    return {"results": [system.fetch(each) for each in ids]}


def latency(system: Any, number: str) -> dict[str, Any]:
    for i in range(WARM_UP):
        system.call(i)
    times = []
    for i in range(int(number)):
        answer, spent_s = _timed(lambda i=i: system.call(i))  # type: ignore[misc]
        assert answer == i, f"{answer} came back for {i}"
        times.append(spent_s)
    return {"seconds": times}


def slow(system: Any, number: str) -> dict[str, Any]:
    for i in range(int(number)):
        system.send_slow(i)
    return {}


def _timed(act: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    answer = act()
    return answer, time.perf_counter() - began


VERBS: dict[str, Callable[..., dict[str, Any]]] = {
    "prepare": prepare,
    "enqueue": enqueue,
    "check": check,
    "latency": latency,
    "slow": slow,
}


def main(module: str, verb: str, *rest: str) -> None:
    print(json.dumps(VERBS[verb](import_module(f"task_peers.{module}"), *rest)), flush=True)
    os._exit(0)


if __name__ == "__main__":
    arguments: Sequence[str] = sys.argv[1:]
    main(*arguments)
