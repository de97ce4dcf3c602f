"""Which operator runs which node."""

from collections.abc import Sequence

from tidemill.pipeline.operators.aggregate import AggregateOperator, CombineOperator
from tidemill.pipeline.operators.arrange import ArrangeOperator
from tidemill.pipeline.operators.at_most_one import AtMostOneOperator
from tidemill.pipeline.operators.constant import ConstantOperator
from tidemill.pipeline.operators.distinct import DistinctOperator
from tidemill.pipeline.operators.expand import ExpandOperator
from tidemill.pipeline.operators.generate import GenerateOperator, ReplicateOperator
from tidemill.pipeline.operators.join import JoinOperator
from tidemill.pipeline.operators.label import LabelOperator
from tidemill.pipeline.operators.loop import LoopOperator
from tidemill.pipeline.operators.mark import MarkOperator
from tidemill.pipeline.operators.negate import NegateOperator
from tidemill.pipeline.operators.operator import Operator
from tidemill.pipeline.operators.select import SelectOperator
from tidemill.pipeline.operators.sessions import SessionsOperator
from tidemill.pipeline.operators.source import SourceOperator
from tidemill.pipeline.operators.temporal import TemporalOperator
from tidemill.pipeline.operators.timed_source import TimedSourceOperator
from tidemill.pipeline.operators.top_k import TopKOperator
from tidemill.pipeline.operators.union import UnionOperator
from tidemill.pipeline.operators.view import ViewOperator
from tidemill.pipeline.operators.window import WindowOperator
from tidemill.pipeline.plan import node as nodes

OPERATORS: dict[type[nodes.Node], type[Operator]] = {
    nodes.Source: SourceOperator,
    nodes.TimedSource: TimedSourceOperator,
    nodes.Select: SelectOperator,
    nodes.Constant: ConstantOperator,
    nodes.Generate: GenerateOperator,
    nodes.Replicate: ReplicateOperator,
    nodes.Expand: ExpandOperator,
    nodes.Union: UnionOperator,
    nodes.Negate: NegateOperator,
    nodes.Arrange: ArrangeOperator,
    nodes.Join: JoinOperator,
    nodes.Mark: MarkOperator,
    nodes.Label: LabelOperator,
    nodes.AtMostOne: AtMostOneOperator,
    nodes.Combine: CombineOperator,
    nodes.Aggregate: AggregateOperator,
    nodes.Distinct: DistinctOperator,
    nodes.Loop: LoopOperator,
    nodes.TopK: TopKOperator,
    nodes.Window: WindowOperator,
    nodes.Sessions: SessionsOperator,
    nodes.Temporal: TemporalOperator,
    nodes.View: ViewOperator,
}


def build(node: nodes.Node, inputs: Sequence[nodes.Node]) -> Operator:
    """The operator of a node, whose inputs are these nodes. Raises `KeyError` for what a runtime runs."""
    return OPERATORS[type(node)](node, inputs)
