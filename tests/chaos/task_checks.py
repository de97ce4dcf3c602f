"""What is wrong about tasks, from what was recorded and what they wrote themselves. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from chaos.recorder import Change
from tidemill.tasks.status import LIVE, QUEUED, is_ended, name_of
from tidemill.tasks.task import TASKS


def of_tasks(changes: Iterable[Change]) -> list[Change]:
    return [change for change in changes if change.collection == TASKS.name]


def status_of(change: Change) -> int | None:
    return None if change.after is None else int(change.after.state or 0)


def none_lost(changes: Sequence[Change], submitted: Iterable[str]) -> Iterator[str]:
    """Everything that was submitted is there, and has ended."""
    last = {change.key: status_of(change) for change in changes}
    for key in submitted:
        status = last.get(key)
        if status is None:
            yield f"task {key} is gone"
        elif not is_ended(status):
            yield f"task {key} has not ended: it is {name_of(status)}"


def none_ended_twice(changes: Sequence[Change]) -> Iterator[str]:
    """Nobody asked for a task to be tried again, so its end is the last that is written of it."""
    ended: dict[str, int] = {}
    for change in changes:
        status = status_of(change)
        if change.key in ended and status is not None:
            yield f"task {change.key} was {name_of(ended[change.key])} and then written as {name_of(status)}"
        if status is not None and is_ended(status):
            ended[change.key] = status


def no_cap_exceeded(changes: Sequence[Change], limit: int) -> Iterator[str]:
    """At no time are more tasks in the hands of nodes than their queue allows."""
    live: set[str] = set()
    for change in changes:
        if status_of(change) in LIVE:
            live.add(change.key)
        else:
            live.discard(change.key)
        if len(live) > limit:
            yield f"{len(live)} tasks were in hands at write {change.number}, more than {limit}"


def no_step_back(changes: Sequence[Change]) -> Iterator[str]:
    """Terms never fall, and a task that is taken while it is in hands has a new one."""
    terms: dict[str, int] = defaultdict(int)
    for change in changes:
        if change.after is None:
            continue
        if change.after.term < terms[change.key]:
            yield f"the term of task {change.key} fell at write {change.number}"
        was, now = change.before, change.after
        taken = was is not None and was.state == QUEUED and now.state in LIVE
        if taken and was is not None and now.term == was.term:
            yield f"task {change.key} was taken without a new term at write {change.number}"
        terms[change.key] = change.after.term


def no_zombie(changes: Sequence[Change], fences: Mapping[str, int]) -> Iterator[str]:
    """The result that a task ended with was computed under the term that stood when it ended."""
    for change in changes:
        status = status_of(change)
        if change.before is None or status is None or status <= 0:
            continue
        if change.key in fences and fences[change.key] != change.before.term:
            ran, stood = fences[change.key], change.before.term
            yield f"task {change.key} ended with what ran under {ran}, while {stood} stood"


def runs(lines: Iterable[str]) -> Counter[int]:
    """How often each task was begun, by its number."""
    return Counter(int(line.split()[1]) for line in lines if line.startswith("begun"))
