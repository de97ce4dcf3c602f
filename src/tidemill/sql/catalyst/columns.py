"""The columns of a query: each has a name of its own and a type that can be kept."""

from py4j.java_gateway import JavaObject

from tidemill.pipeline import types
from tidemill.pipeline.errors import Place, Refused
from tidemill.pipeline.ingest import WEIGHT
from tidemill.sql.catalyst.expression import items, kind_of, place_of
from tidemill.sql.catalyst.plans.schema import schema_of


def check_columns(plan: JavaObject, names: tuple[str, ...]) -> None:
    """Raise `Refused`, with the place of the column, for one that no view can have.

    `names` are those that the view gives to its columns, if it does.
    """
    fields = schema_of(plan)["fields"]
    if names and len(names) != len(fields):
        raise Refused(f"{len(names)} columns are named, and the query gives {len(fields)}: name each of them")
    named = [{**field, "name": name} for field, name in zip(fields, names, strict=True)] if names else fields
    folded = [field["name"].lower() for field in named]
    for index, field in enumerate(named):
        try:
            types.schema_from_spark({"type": "struct", "fields": [field]})
            if folded[index] == WEIGHT:
                raise Refused(f"the name {field['name']} is taken by the weights of changes: choose another")
            if folded[index] in folded[:index]:
                raise Refused(
                    f"column {field['name']} is there twice: give each column a name of its own, with AS"
                )
        except Refused as error:
            error.place = _place_of_column(plan, index)
            raise


def _place_of_column(plan: JavaObject, index: int) -> Place | None:
    """Where a column of the query is computed, if that is known."""
    while True:
        match kind_of(plan):
            case "Project":
                return _place(items(plan.projectList())[index])
            case "Aggregate":
                return _place(items(plan.aggregateExpressions())[index])
        below = items(plan.children())
        if not below or below[0].output().size() <= index:
            return None
        plan = below[0]


def _place(column: JavaObject) -> Place | None:
    """Of a column that is computed, or has another name. Those that are only named may have another's."""
    if kind_of(column) == "AttributeReference":
        return None
    named = kind_of(column) != "Alias" or kind_of(column.child()) == "AttributeReference"
    return place_of(column if named else column.child())
