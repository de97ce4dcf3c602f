"""What must hold of everything that was accepted and said. Pure.

Each check is a function from records, or from what agents said, to sentences about what is wrong.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chaos.recorder import Change, Facts
from chaos.words import EFFECTS, ENTRIES, LEASE, PARTITION_LEASE, SEMAPHORE, SLOTS
from tidemill.cluster import LEASES, PARTITIONS, SEMAPHORES
from tidemill.cluster.lock import LOCKS
from tidemill.cluster.partitions import DONE

LEASED = {found.name: LEASE.ttl_ms for found in (LEASES, LOCKS, SEMAPHORES)}
LEASED[PARTITIONS.name] = PARTITION_LEASE.ttl_ms
FENCED = {ENTRIES.name, EFFECTS.name}

Said = Mapping[str, Any]


def one_holder_at_a_time(changes: Sequence[Change]) -> Iterator[str]:
    """A lease changes hands once it has run out or was let go of; then its term grows, and each has one
    holder."""
    holders: dict[tuple[str, str, int], str | None] = {}
    for change in changes:
        if change.collection not in LEASED or change.after is None:
            continue
        before, after = change.before or Facts(0, 0, None, 0), change.after
        who = holders.setdefault((change.collection, change.key, after.term), after.holder)
        if after.term and who != after.holder:
            yield f"{_place(change)}: term {after.term} has two holders, {who} and {after.holder}"
        if after.term < before.term:
            yield f"{_place(change)}: the term fell from {before.term} to {after.term}"
        if after.holder != before.holder and after.term == before.term:
            yield f"{_place(change)}: went from {before.holder} to {after.holder} under one term"
        taken_at = change.at if change.at is not None else after.expire - LEASED[change.collection]
        if after.term > before.term and before.expire > taken_at:
            yield (
                f"{_place(change)}: taken from {before.holder} by {after.holder} "
                f"{before.expire - taken_at} ms before it ran out"
            )


def no_stale_write(changes: Sequence[Change]) -> Iterator[str]:
    """A fenced write was accepted while its term was the lease's, and the lease was not let go of."""
    leases: dict[tuple[str, str], Facts | None] = {}
    for change in changes:
        if change.collection in LEASED:
            leases[change.collection, change.key] = change.after
        elif change.collection in FENCED and change.after is not None:
            collection, key, term = change.body["fence"]
            lease = leases.get((collection, key))
            if lease is None or lease.term != term or lease.expire == 0:
                now_is = "gone" if lease is None else f"at {lease.term}, until {lease.expire}"
                yield f"{_place(change)}: accepted under term {term} of {collection}/{key}, which is {now_is}"


def done_once(changes: Sequence[Change]) -> Iterator[str]:
    """A partition becomes done once, under the term of whoever held it, and is not begun again."""
    done: Counter[str] = Counter()
    for change in changes:
        if change.collection != PARTITIONS.name or change.after is None:
            continue
        before, after = change.before, change.after
        if before is None and done[change.key]:
            yield f"{_place(change)}: made again after it was done"
        if before is not None and after.state == DONE and before.state != DONE:
            done[change.key] += 1
            if before.term != after.term or before.expire == 0:
                yield f"{_place(change)}: done by one who did not hold it"
            if done[change.key] > 1:
                yield f"{_place(change)}: done {done[change.key]} times"


def everything_done(changes: Sequence[Change], total: int) -> Iterator[str]:
    """Each task below `total` has had its effect, and its partition was done."""
    effects = {change.key for change in changes if change.collection == EFFECTS.name}
    done = {
        change.key.partition("/")[2]
        for change in changes
        if change.collection == PARTITIONS.name and change.after is not None and change.after.state == DONE
    }
    for name in (f"{at:06d}" for at in range(total)):
        if name not in effects:
            yield f"task {name} never had its effect"
        if name not in done:
            yield f"task {name} never was done"


def one_generation_at_a_time(changes: Sequence[Change]) -> Iterator[str]:
    """No shard of an earlier partitioning acts after one of a later has."""
    latest = 0
    for change in changes:
        if change.collection == ENTRIES.name and change.body.get("kind") == "shard":
            generation = change.body["generation"]
            if generation < latest:
                yield f"{_place(change)}: of generation {generation}, after {latest} has begun"
            latest = max(latest, generation)


def nothing_acknowledged_is_lost(changes: Sequence[Change], said: Sequence[Said]) -> Iterator[str]:
    """What an agent was told is written is there, through every kill of the database."""
    there = {change.key for change in changes if change.collection == ENTRIES.name}
    for line in said:
        if line["event"] == "wrote" and line["key"] not in there:
            yield f"entry {line['key']} was acknowledged, and is not there"


def beliefs_do_not_overlap(said: Sequence[Said]) -> Iterator[str]:
    """While one agent trusts its hold on something, no other does. All read the same clock of the machine."""
    believed: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
    for line in said:
        if line["event"] == "held":
            collection, key = line["what"]
            believed[collection, key].append((line["moment"], line["term"]))
    for (collection, key), moments in believed.items():
        latest = 0
        for moment, term in sorted(moments):
            if term < latest:
                yield f"{collection}/{key}: trusted under term {term} at {moment}, after {latest} was"
            latest = max(latest, term)


def slots_are_there(changes: Sequence[Change]) -> Iterator[str]:
    """Nobody holds a slot that the semaphore does not have."""
    allowed = {f"{SEMAPHORE}:slot:{number}" for number in range(SLOTS)}
    for change in changes:
        if change.collection == SEMAPHORES.name and ":slot:" in change.key and change.key not in allowed:
            yield f"{_place(change)}: is no slot of {SLOTS}"


def judge(changes: Sequence[Change], said: Sequence[Said], total: int) -> list[str]:
    """Everything that is wrong."""
    return [
        *one_holder_at_a_time(changes),
        *no_stale_write(changes),
        *done_once(changes),
        *everything_done(changes, total),
        *one_generation_at_a_time(changes),
        *nothing_acknowledged_is_lost(changes, said),
        *beliefs_do_not_overlap(said),
        *slots_are_there(changes),
    ]


def counts(changes: Sequence[Change], said: Sequence[Said]) -> dict[str, int]:
    """What was judged, so that a clean verdict can be weighed."""
    events = Counter(line["event"] for line in said)
    kinds = Counter(change.body.get("kind") for change in changes if change.collection == ENTRIES.name)
    taken = Counter(
        change.collection
        for change in changes
        if change.after is not None and change.after.term > (change.before.term if change.before else 0)
    )
    return {
        "writes accepted": len(changes),
        "of them under a fence": sum(change.collection in FENCED for change in changes),
        "leases taken": sum(taken[name] for name in LEASED),
        "leaders": sum(
            change.collection == LEASES.name
            and change.key == "leader"
            and change.after is not None
            and change.after.term > (change.before.term if change.before else 0)
            for change in changes
        ),
        "locks taken": taken[LOCKS.name],
        "acts of the lock": kinds["lock"],
        "acts of the semaphore": kinds["semaphore"],
        "partitions taken": taken[PARTITIONS.name],
        "tasks done": sum(change.collection == EFFECTS.name for change in changes),
        "generations of shards": len(
            {
                change.body["generation"]
                for change in changes
                if change.collection == ENTRIES.name and change.body.get("kind") == "shard"
            }
        ),
        "beliefs compared": events["held"],
        "writes acknowledged": events["wrote"],
        "stale writes refused": events["refused"],
        "writes that failed": events["failed"],
    }


def _place(change: Change) -> str:
    return f"{change.number}, {change.collection}/{change.key}"
