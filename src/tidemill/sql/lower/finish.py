"""The last look at a new circuit: what is there already is shared, what nobody needs goes."""

from collections.abc import Container

import msgspec

from tidemill.pipeline.plan.circuit import Circuit, fingerprint
from tidemill.pipeline.plan.node import AnyNode

SALT = "salt"


def finish(
    nodes: list[AnyNode], known: int, last: int, unfilled: Container[str] = ()
) -> tuple[Circuit, dict[int, int]]:
    """The circuit of the nodes, of which the first `known` are fixed, and where each that stays has gone.

    A node whose state can serve a later view is used instead of its equal, and so is one that is `unfilled`,
    as it has missed nothing. Every other new node gets a fingerprint of its own, by a `salt` where it must:
    it starts empty, and is filled apart from the old one.
    """
    places = _reuse(nodes, known, unfilled)
    kept = list(nodes[:known])
    prints = list(Circuit(tuple(kept)).fingerprints)
    moved = {index: index for index in range(known)}
    for index in _needed(nodes, places, known, last):
        inputs = tuple(moved[places.get(one, one)] for one in nodes[index].inputs)
        moved[index] = len(kept)
        kept.append(_unlike(prints, msgspec.structs.replace(nodes[index], inputs=inputs)))
        prints.append(fingerprint(kept[-1], prints))
    moved |= {index: place for index, place in places.items() if index not in moved}
    return Circuit(tuple(kept)), moved


def _reuse(nodes: list[AnyNode], known: int, unfilled: Container[str]) -> dict[int, int]:
    """For each new node whose equal is there and may be shared, the position of that."""
    prints = Circuit(tuple(_salted(node, 0) for node in nodes)).fingerprints
    own = Circuit(tuple(nodes[:known])).fingerprints
    there = {prints[at]: at for at in range(known) if nodes[at].shared or own[at] in unfilled}
    return {index: there[prints[index]] for index in range(known, len(nodes)) if prints[index] in there}


def _needed(nodes: list[AnyNode], places: dict[int, int], known: int, last: int) -> list[int]:
    found: set[int] = set()
    waiting = [last]
    while waiting:
        index = waiting.pop()
        index = places.get(index, index)
        if index >= known and index not in found:
            found.add(index)
            waiting.extend(nodes[index].inputs)
    return sorted(found)


def _unlike(prints: list[str], node: AnyNode) -> AnyNode:
    """The node with the least salt that tells it from all that are there, which have these fingerprints."""
    salt = 0
    while fingerprint(_salted(node, salt), prints) in prints:
        salt += 1
    return _salted(node, salt)


def _salted(node: AnyNode, salt: int) -> AnyNode:
    """The node with that salt. One that keeps no state has no field for it: its schema carries the salt."""
    if SALT in node.__struct_fields__:
        return msgspec.structs.replace(node, **{SALT: salt})
    schema = {name: value for name, value in node.spark_schema.items() if name != SALT}
    return msgspec.structs.replace(node, spark_schema={**schema, SALT: salt} if salt else schema)
