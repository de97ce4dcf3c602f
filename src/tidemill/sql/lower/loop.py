"""Recursion: a loop around the part of a query that refers to itself."""

from tidemill.pipeline.errors import Refused
from tidemill.pipeline.operators.loop import INNER
from tidemill.pipeline.plan import node
from tidemill.pipeline.plan.node import AnyNode
from tidemill.sql.catalog import Catalog
from tidemill.sql.lower.builder import Builder, Rows
from tidemill.sql.relation import Again, AnyRelation, Loop

CONSTRUCTS = {
    node.SparkSelect: "a function that is not proved",
    node.Loop: "another recursion",
}
"""What a loop cannot have inside, in the words of a query."""


def lower_loop(relation: AnyRelation, build: Builder) -> Rows | None:
    """A node with a circuit of its own; what does not refer to the loop stays outside, and is its input."""
    if not isinstance(relation, Loop):
        return None
    body = Body(build, relation.name)
    position = body.put(body.lower(relation.body))
    if position != len(body.nodes) - 1:  # the result comes last
        body.add(node.Union((position,), relation.schema))
    for inner in body.nodes:
        if isinstance(inner, INNER) and (not isinstance(inner, node.Aggregate) or inner.keys):
            continue
        raise Refused(f"{_construct(inner)} is not supported inside a recursive query")
    loop = node.Loop(tuple(body.inputs), relation.schema, tuple(body.nodes), relation.limit)
    return build.all_of(build.add(loop, [()]))


class Body(Builder):
    """The circuit of a loop. It lies with one pipeline worker, so nothing is exchanged in it."""

    def __init__(self, outer: Builder, name: str) -> None:
        super().__init__(Catalog(), {}, outer.rules)
        self.inputs: list[int] = []
        self._outer = outer
        self._name = name

    def lower(self, relation: AnyRelation) -> Rows:
        if isinstance(relation, Again) and relation.loop == self._name:
            return self.all_of(self.add(node.LoopVariable((), relation.schema)))
        if _refers(relation, self._name):
            return super().lower(relation)
        position = self._outer.exchanged(self._outer.put(self._outer.lower(relation)), ())
        if position not in self.inputs:
            self.inputs.append(position)
        schema = self._outer.nodes[position].spark_schema
        return self.all_of(self.add(node.LoopInput((), schema, self.inputs.index(position))))

    def exchanged(self, position: int, key: tuple[int, ...]) -> int:  # noqa: ARG002
        return position


def _refers(relation: AnyRelation, name: str) -> bool:
    if isinstance(relation, Again):
        return relation.loop == name
    return any(_refers(child, name) for child in relation.children)


def _construct(inner: AnyNode) -> str:
    if isinstance(inner, node.Aggregate):
        return "an aggregate over all rows"
    return CONSTRUCTS.get(type(inner), f"the operation {type(inner).__name__}")
