"""The last look at a new circuit: what is there already is shared, what nobody needs goes."""

import msgspec

from tidemill.pipeline.plan.circuit import Circuit
from tidemill.pipeline.plan.node import Aggregate, AnyNode, Distinct


def finish(nodes: list[AnyNode], known: int, last: int) -> tuple[Circuit, dict[int, int]]:
    """The circuit of the nodes, of which the first `known` are fixed, and where each that stays has gone.

    A node whose state can serve a later view is used again instead of its equal; of the others, one that
    computes the same as a node that is there gets a `salt`, so that it fills a state of its own.
    """
    places = _reuse(nodes, known)
    needed = _needed(nodes, places, known, last)
    kept = list(nodes[:known])
    moved = {index: index for index in range(known)}
    for index in needed:
        node = nodes[index]
        inputs = tuple(moved[places.get(one, one)] for one in node.inputs)
        moved[index] = len(kept)
        kept.append(_salted(kept, msgspec.structs.replace(node, inputs=inputs), known))
    for index, place in places.items():
        if place in moved:
            moved[index] = moved[place]
    return Circuit(tuple(kept)), moved


def _reuse(nodes: list[AnyNode], known: int) -> dict[int, int]:
    """For each new node whose equal is there and may be shared, the position of that."""
    prints = Circuit(tuple(nodes)).fingerprints
    there = {prints[index]: index for index in range(known) if nodes[index].shared}
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


def _salted(kept: list[AnyNode], node: AnyNode, known: int) -> AnyNode:
    if not isinstance(node, Aggregate | Distinct):
        return node
    taken = set(Circuit(tuple(kept)).fingerprints[:known])
    while Circuit((*kept, node)).fingerprints[-1] in taken:
        node = msgspec.structs.replace(node, salt=node.salt + 1)
    return node
