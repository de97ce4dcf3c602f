"""Partitions counted: how far those of each handler are, who holds how many, and what is alarming. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from tidemill.cluster.figures import Alarm
from tidemill.cluster.partitions import DONE, FAILED, IN_PROGRESS, OUTSTANDING, STOPPING, Partition

STATES = (OUTSTANDING, IN_PROGRESS, STOPPING, DONE, FAILED)

FAILED_ALARM = "partition.failed"


class Tally(Struct, frozen=True):
    """The partitions of one handler: how many are in each state, and how many each holder has, by its token.

    `first_failed` is the key of a failed one.
    """

    handler: str
    states: Mapping[str, int]
    held: Mapping[str, int]
    first_failed: str | None = None


def tallies(partitions: Iterable[Partition], now: int) -> list[Tally]:
    """What there is of each handler at the store's time `now`, by name."""
    by_handler: dict[str, list[Partition]] = defaultdict(list)
    for found in partitions:
        by_handler[found.handler].append(found)
    return [_tally(handler, by_handler[handler], now) for handler in sorted(by_handler)]


def _tally(handler: str, partitions: Sequence[Partition], now: int) -> Tally:
    counts = Counter(found.state_at(now) for found in partitions)
    return Tally(
        handler=handler,
        states={state: counts[state] for state in STATES},
        held=Counter(found.holder or "" for found in partitions if found.held(now)),
        first_failed=next((found.key for found in partitions if found.state == FAILED), None),
    )


def held_in_all(counted: Iterable[Tally], token: str) -> int:
    """How many partitions, of all handlers, the node with that token holds."""
    return sum(tally.held.get(token, 0) for tally in counted)


def failures(counted: Iterable[Tally]) -> list[Alarm]:
    """One alarm for each handler of which partitions have failed."""
    return [_failure(tally) for tally in counted if tally.first_failed is not None]


def _failure(tally: Tally) -> Alarm:
    count, handler = tally.states[FAILED], tally.handler
    what = "partition has" if count == 1 else "partitions have"
    message = (
        f"{count} {what} failed, as the handler {handler!r} raised too often; {tally.first_failed} is one"
    )
    look = f"`tidemill cluster partitions --handler {handler}`"
    return Alarm(FAILED_ALARM, message, f"see why with {look}, mend it, then `tidemill cluster retry KEY`")
