"""Claims, and caps that stay exact while many claim at once.

Whoever counts under a cap first takes a lock in its name, held until the claim is committed. Counting must
not begin before the locks are granted, and a statement sees what was committed when it began: so the
locks are taken by a statement before it, in the same transaction and the same round trip.
"""

import hashlib

import msgspec

from tidemill.store.backends.postgres import statements
from tidemill.store.backends.postgres.pool import Request
from tidemill.store.backends.postgres.values import Integers
from tidemill.store.backends.sql import assignments
from tidemill.store.check import values_of
from tidemill.store.document import Claim, Collection, Condition, Scalar

_LOCK_CAPS = "SELECT pg_advisory_xact_lock(cap) FROM unnest(%s) AS cap"
_render = statements.PostgresRender()


def requests(collection: Collection, claim: Claim, nonce: int) -> list[Request]:
    """The statements of a claim; the last one returns the documents taken."""
    take = _claim(collection, claim, nonce)
    return [(_LOCK_CAPS, [_cap_locks(collection, claim)]), take] if claim.caps else [take]


def _claim(collection: Collection, claim: Claim, nonce: int) -> Request:
    conditions, values = _render.where(claim.where)
    sets, set_values = assignments(claim.set, "%s")
    room, room_values = _room(collection, claim)
    text = statements.claim(collection, conditions, _render.order(claim.sort), sets, room)
    return text, [*values, *room_values, claim.holder, claim.ttl_ms, nonce, *set_values]


def _room(collection: Collection, claim: Claim) -> tuple[str, list[Scalar]]:
    """How many documents may be taken: the smallest of what is asked for and what each cap has left."""
    parts = ["%s::bigint"]
    params: list[Scalar] = [claim.n]
    for cap in claim.caps:
        conditions, of_cap = _render.where(cap.where)
        limit = max(0, cap.limit)
        parts.append(f"%s::bigint - ({statements.counting(collection, conditions)})")
        params += [limit, *of_cap, limit]
    return f"greatest(0, least({', '.join(parts)}))", params


def _cap_locks(collection: Collection, claim: Claim) -> Integers:
    """A number for each cap, the same for all who count the same documents; in order, against deadlock."""
    locks = set()
    for cap in claim.caps:
        where = b"\n".join(sorted(map(_canonical, cap.where)))
        digest = hashlib.sha256(collection.name.encode() + b"\n" + where).digest()
        locks.add(int.from_bytes(digest[:8], signed=True))
    return Integers(sorted(locks))


def _canonical(condition: Condition) -> bytes:
    values = sorted(map(msgspec.json.encode, values_of(condition)))
    return b" ".join((condition.field.encode(), condition.operator.encode(), *values))
