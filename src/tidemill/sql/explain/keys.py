"""By which columns a node spreads, groups, joins or finds its rows."""

from collections.abc import Sequence

from tidemill.pipeline.plan import node as nodes
from tidemill.pipeline.plan.node import AnyNode
from tidemill.sql.explain.words import arranged_by, names_of


def keys(node: AnyNode, inputs: Sequence[AnyNode]) -> list[str]:
    """The names of those columns, as the node's input has them; of a join those of the left."""
    match node:
        case nodes.Source(shard_key=key):
            return _named(node, key)
        case nodes.Exchange(key=key):
            [combine] = inputs
            return _named(combine, combine.keys if isinstance(combine, nodes.Combine) else key)
        case nodes.Arrange(key=key):
            return _named(inputs[0], key)
        case nodes.Join() | nodes.Mark():
            return _named(inputs[0], arranged_by(inputs[0]))
        case nodes.Label(key=key):
            return _named(inputs[0], key or ())
        case nodes.Aggregate(keys=several, input_schema=schema):
            return [schema["fields"][index]["name"] for index in several]
        case nodes.Combine(keys=several) | nodes.TopK(keys=several) | nodes.Window(keys=several):
            return _named(inputs[0], several)
        case nodes.Sessions(keys=several):
            return _named(inputs[0], several)
        case nodes.Distinct():
            return names_of(node)
    return []


def _named(node: AnyNode, positions: Sequence[int]) -> list[str]:
    names = names_of(node)
    return [names[index] for index in positions]
