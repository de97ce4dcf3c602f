"""Lowering: from a relation, as Spark understood the query, to nodes of a circuit.

It promises that the nodes compute the relation's rows, and refuses by name what it has no rule for. Each kind
of relation is one file (`leaf`, `constant`, `select`, `join`, …); a further construct is a further rule in
`RULES`.

Words: *rows* are what a select makes of a node, a select that waits to be fused with the next; rows are
*spread* by a key when each lies with the pipeline worker that owns its key's shard; a *wish* is a key that
a view would like a table to be spread by.

Read `builder`, then the rules; `shards` chooses shard keys before, `finish` shares and names state after.
"""

from tidemill.pipeline.plan import node
from tidemill.sql.catalog import Addition, Catalog
from tidemill.sql.lower import shards
from tidemill.sql.lower.aggregate import lower_aggregate, lower_distinct
from tidemill.sql.lower.at_most_one import lower_at_most_one
from tidemill.sql.lower.builder import Builder, Rule
from tidemill.sql.lower.constant import lower_constant
from tidemill.sql.lower.distinct import lower_distinct_functions
from tidemill.sql.lower.expand import lower_expand
from tidemill.sql.lower.finish import finish
from tidemill.sql.lower.generate import lower_generate, lower_replicate
from tidemill.sql.lower.join import lower_join
from tidemill.sql.lower.leaf import lower_leaf
from tidemill.sql.lower.loop import lower_loop
from tidemill.sql.lower.order import lower_top_k
from tidemill.sql.lower.select import lower_filter, lower_project
from tidemill.sql.lower.sessions import lower_sessions
from tidemill.sql.lower.temporal import lower_temporal
from tidemill.sql.lower.union import lower_union
from tidemill.sql.lower.window import lower_window
from tidemill.sql.relation import AnyRelation

RULES: tuple[Rule, ...] = (
    lower_leaf,
    lower_constant,
    lower_temporal,
    lower_project,
    lower_filter,
    lower_join,
    lower_at_most_one,
    lower_distinct,
    lower_distinct_functions,
    lower_aggregate,
    lower_expand,
    lower_union,
    lower_sessions,
    lower_loop,
    lower_generate,
    lower_top_k,
    lower_window,
    lower_replicate,
)


def lower(relation: AnyRelation, catalog: Catalog, name: str, epoch: int = 0) -> Addition:
    """The view of that name, appended to the catalog's circuit. Raises `Refused`."""
    shard_keys = shards.choose(relation, catalog)
    build = Builder(catalog, shard_keys, RULES)
    position = build.put(build.lower(relation))
    view = build.add(node.View((position,), relation.schema, name, epoch))
    circuit, moved = finish(build.nodes, len(catalog.circuit.nodes), view, catalog.unfilled)
    chosen = {name: key for name, key in shard_keys.items() if catalog.tables[name].shard_key is None}
    sources = {name: moved[position] for name, position in build.sources.items()}
    origins = {
        circuit.fingerprints[moved[position]]: found
        for position, found in build.origins.items()
        if moved.get(position, -1) >= len(catalog.circuit.nodes)
    }
    return Addition(circuit, moved[view], relation.schema, chosen, sources, origins)


__all__ = ["lower", "RULES"]
