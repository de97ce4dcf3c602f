"""Reads a plan by the kinds of its nodes."""

from collections.abc import Callable, Mapping
from typing import Any

from py4j.java_gateway import JavaObject

from tidemill.pipeline import expressions
from tidemill.pipeline.errors import UnsupportedType
from tidemill.pipeline.plan.expression import Tree
from tidemill.sql.catalyst import expression
from tidemill.sql.catalyst.expression import Scope, kind_of
from tidemill.sql.catalyst.fragment import Fragments
from tidemill.sql.catalyst.plans.refusal import refusal
from tidemill.sql.catalyst.session import Frames
from tidemill.sql.relation import AnyRelation, Scalar

Read = Callable[["Reader", JavaObject], AnyRelation]
"""Makes a relation of one kind of plan."""


class Reader:
    """Reads the plans of frames over the tables and views of one pipeline."""

    def __init__(self, frames: Frames, fragments: Fragments, plans: Mapping[str, Read]) -> None:
        self.frames = frames
        self._fragments = fragments
        self._plans = plans

    def read(self, plan: JavaObject) -> AnyRelation:
        """The plan as a relation. Raises `Refused` for a node or expression that we do not know."""
        kind = kind_of(plan)
        if kind not in self._plans:
            raise refusal(plan, kind)
        return self._plans[kind](self, plan)

    def scalar(self, node: JavaObject, scope: Scope, schema: Any) -> Scalar:
        """An expression over the rows of a relation with that scope and schema."""
        tree = expression.read(node, scope)
        return Scalar(tree, unproved(tree), lambda: self._fragments.text(node, scope, schema))


def unproved(tree: Tree) -> str | None:
    """The function that keeps us from computing the expression ourselves, if there is one."""
    try:
        return expressions.supports(tree)
    except UnsupportedType as error:
        return str(error)
