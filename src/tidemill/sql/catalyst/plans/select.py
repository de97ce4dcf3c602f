"""Tables, projections and filters."""

from itertools import takewhile

from py4j.java_gateway import JavaObject

from tidemill.pipeline.errors import Refused
from tidemill.sql import relation
from tidemill.sql.catalyst.expression import items, place_of
from tidemill.sql.catalyst.origin import origin_of
from tidemill.sql.catalyst.plans.reader import Reader
from tidemill.sql.catalyst.plans.schema import attributes, both_true, conjuncts, schema_of
from tidemill.sql.catalyst.plans.subquery import (
    input_of,
    uses_value,
    where_values,
    with_values,
    without_unused,
)
from tidemill.sql.catalyst.plans.temporal import read_condition, tells_time
from tidemill.sql.relation import AnyRelation, Origin


def read_leaf(reader: Reader, plan: JavaObject) -> relation.Leaf:
    name = reader.frames.name_of(plan)
    if name is None:
        raise Refused(
            f"the frame with columns {', '.join(plan.schema().fieldNames())} is "
            "not a table or view of the pipeline: CREATE TABLE and insert its rows"
        )
    return relation.Leaf(schema_of(plan), Origin(name, place_of(plan)), name)


def read_project(reader: Reader, plan: JavaObject) -> relation.Project:
    plan = without_unused(reader, plan)
    nodes = items(plan.projectList())
    found = with_values(reader, input_of(reader, plan.child()), nodes)
    columns = tuple(reader.scalar(node, found.scope, found.schema) for node in nodes)
    return relation.Project(schema_of(plan), origin_of(plan), found.rows, columns)


def read_python(reader: Reader, plan: JavaObject) -> relation.Project:
    """The child's columns and those that Python functions compute."""
    child, scope, schema = plan.child(), attributes(plan.child()), schema_of(plan.child())
    nodes = [*items(child.output()), *items(plan.udfs())]
    columns = tuple(reader.scalar(node, scope, schema) for node in nodes)
    return relation.Project(schema_of(plan), origin_of(plan), reader.read(child), columns)


def read_filter(reader: Reader, plan: JavaObject) -> AnyRelation:
    """A filter; in two when Spark must test later conditions: it sees only what passed the first.

    Conditions on the step's clock come last, since rows that may still pass them are kept.
    """
    child, scope, schema = plan.child(), attributes(plan.child()), schema_of(plan.child())
    nodes = conjuncts(plan.condition())
    clocked = tuple(read_condition(reader, node, scope, schema) for node in nodes if tells_time(node))
    valued = [node for node in nodes if uses_value(node) and not tells_time(node)]
    nodes = [node for node in nodes if not uses_value(node) and not tells_time(node)]
    parts = [reader.scalar(node, scope, schema) for node in nodes]
    ours = list(takewhile(lambda part: not part.unproved, parts))
    found = reader.read(child)
    for some in (ours, parts[len(ours) :]):
        condition = both_true(some)
        if condition:
            found = relation.Filter(schema_of(plan), origin_of(plan), found, condition)
    if valued:
        found = where_values(reader, found, child, valued)
    return relation.Temporal(schema_of(plan), origin_of(plan), found, clocked) if clocked else found


def read_same(reader: Reader, plan: JavaObject) -> AnyRelation:
    """What only says how rows are spread, which a pipeline decides by itself."""
    return reader.read(plan.child())
