"""All nodes of a pipeline, and what follows from their arrangement: fingerprints, stages, consumers."""

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec

from tidemill.pipeline.plan.node import AnyNode, Exchange, SparkSelect, View


class Circuit(msgspec.Struct, frozen=True, dict=True):
    """The operators of a pipeline, each after its inputs."""

    nodes: tuple[AnyNode, ...] = ()

    def __post_init__(self) -> None:
        for position, node in enumerate(self.nodes):
            if any(not 0 <= index < position for index in node.inputs):
                raise ValueError(f"node {position} comes before its inputs {node.inputs}")

    def to_json(self) -> bytes:
        return msgspec.json.encode(self, order="deterministic")

    @staticmethod
    def from_json(text: bytes) -> "Circuit":
        return msgspec.json.decode(text, type=Circuit)

    @cached_property
    def fingerprints(self) -> tuple[str, ...]:
        """What each node computes, down to the tables: equal for nodes that must always put out the same."""
        found: list[str] = []
        for node in self.nodes:
            found.append(fingerprint(node, found))
        return tuple(found)

    @cached_property
    def digest(self) -> str:
        """What the whole circuit computes."""
        return hashlib.blake2b("".join(self.fingerprints).encode(), digest_size=8).hexdigest()

    @cached_property
    def stages(self) -> tuple[int, ...]:
        """For each node the stage it runs in. An exchange belongs to the stage that receives."""
        found: list[int] = []
        for node in self.nodes:
            before = max((found[index] for index in node.inputs), default=0)
            found.append(before + isinstance(node, Exchange | SparkSelect))
        return tuple(found)

    @property
    def stage_count(self) -> int:
        return max(self.stages, default=0) + 1

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """For each node the nodes that it feeds."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for position, node in enumerate(self.nodes):
            for index in dict.fromkeys(node.inputs):
                found[index].append(position)
        return tuple(map(tuple, found))

    def below(self, positions: Iterable[int]) -> set[int]:
        """These nodes and all that they are computed from."""
        found: set[int] = set()
        waiting = list(positions)
        while waiting:
            position = waiting.pop()
            if position not in found:
                found.add(position)
                waiting.extend(self.nodes[position].inputs)
        return found

    def views_above(self, position: int) -> tuple[str, ...]:
        """The views that depend on a node, nearest first: for messages."""
        names: dict[str, None] = {}
        waiting = [position]
        while waiting:
            index = waiting.pop(0)
            node = self.nodes[index]
            if isinstance(node, View):
                names[node.name] = None
            waiting.extend(self.consumers[index])
        return tuple(names)


def fingerprint(node: AnyNode, before: Sequence[str]) -> str:
    """What a node computes, by the fingerprints of the nodes before it."""
    own = msgspec.to_builtins(msgspec.structs.replace(node, inputs=()))
    text = msgspec.json.encode([own, [before[index] for index in node.inputs]], order="deterministic")
    return hashlib.blake2b(text, digest_size=8).hexdigest()
