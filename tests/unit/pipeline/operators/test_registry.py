"""Every class of node has its operator, and an operator does nothing when nothing changes."""

from typing import Any, NoReturn

import pyarrow as pa
import pytest

from tidemill.pipeline.operators import OPERATORS, build
from tidemill.pipeline.operators.operator import Access, Moment
from tidemill.pipeline.plan import node as nodes
from tidemill.pipeline.plan.expression import column
from tidemill.pipeline.testing import spark
from tidemill.pipeline.zset import ZSet

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.large_string())])
ROWS: Any = spark(SCHEMA)
ARRANGED = nodes.Arrange((0,), ROWS, key=(0,))


class Untouchable:
    def __getitem__(self, index: int) -> NoReturn:
        pytest.fail("a state was opened for nothing")


@pytest.mark.parametrize(
    "node",
    [
        nodes.Source((), ROWS, table="t", key=(), shard_key=(0,)),
        nodes.Source((), ROWS, table="t", key=(0,), shard_key=(0,)),
        nodes.Select((0,), ROWS, where=None, columns=(column(0, pa.int64()), column(1, pa.large_string()))),
        nodes.Union((0, 0), ROWS),
        nodes.Negate((0,), ROWS),
        ARRANGED,
        nodes.Join(
            (0, 1), spark(pa.schema([*SCHEMA, ("c", pa.int64()), ("d", pa.large_string())])), condition=None
        ),
        nodes.Distinct((0,), ROWS),
        nodes.View((0,), ROWS, name="v"),
    ],
    ids=lambda node: type(node).__name__,
)
def test_no_change_costs_nothing(node: nodes.Node) -> None:
    operator = build(node, [ARRANGED] * len(node.inputs))
    untouchable: Any = Untouchable()
    access = Access(untouchable, untouchable, fresh=False, last_round=True, moment=Moment(0, 0.0))
    (output,) = operator.step([(ZSet.empty(SCHEMA),)] * max(1, len(node.inputs)), access)

    assert len(output) == 0
    assert output.schema == node.schema


def test_every_node_but_those_between_stages_and_inside_loops_has_an_operator() -> None:
    between = {nodes.Exchange, nodes.SparkSelect}
    inside = {nodes.LoopInput, nodes.LoopVariable}

    assert set(OPERATORS) == set(nodes.AnyNode.__args__) - between - inside
    assert all(operator.cost.startswith("O(") for operator in OPERATORS.values())
