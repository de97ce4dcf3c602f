"""Reads a plan by the kinds of its nodes."""

from collections.abc import Callable, Mapping
from typing import Any

from py4j.java_gateway import JavaObject

from tidemill.pipeline import expressions
from tidemill.pipeline.errors import Refused, UnsupportedType
from tidemill.pipeline.plan.expression import Tree
from tidemill.sql.catalyst import expression
from tidemill.sql.catalyst.expression import Scope, kind_of, place_of
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
        self.fragments = fragments
        self._plans = plans
        self._plan: JavaObject | None = None

    def read(self, plan: JavaObject) -> AnyRelation:
        """The plan as a relation. Raises `Refused`, with its place, for a node or expression that we
        do not know."""
        kind, around = kind_of(plan), self._plan
        self._plan = plan
        try:
            if kind not in self._plans:
                raise refusal(plan, kind, self.fragments.analyzed)
            return self._plans[kind](self, plan)
        except Refused as error:
            error.place = error.place or place_of(plan)
            raise
        finally:
            self._plan = around

    def scalar(self, node: JavaObject, scope: Scope, schema: Any) -> Scalar:
        """An expression over the rows of a relation with that scope and schema."""
        tree, plan = expression.read(node, scope), self._plan

        def text() -> str:
            try:
                return self.fragments.text(node, scope, schema)
            except Refused as error:
                error.place = error.place or (plan and place_of(plan))
                raise

        return Scalar(tree, unproved(tree), text)


def unproved(tree: Tree) -> str | None:
    """The function that keeps us from computing the expression ourselves, if there is one."""
    try:
        return expressions.supports(tree)
    except UnsupportedType as error:
        return str(error)
