"""How long a step took, and for which of its views."""

from msgspec import Struct

from tidemill.pipeline.plan.circuit import Circuit
from tidemill.pipeline.plan.node import View
from tidemill.pipeline.task import Report


class StepTiming(Struct, frozen=True):
    """The time of a whole step, and the reports that say what each operator of its circuit took."""

    circuit: Circuit = Circuit()
    seconds: float = 0.0
    reports: tuple[Report, ...] = ()

    def by_view(self) -> dict[str, float]:
        """For each view, the step without the time of those operators that only other views need.

        So an operator that is shared counts in full for each of its views, and so does what no operator is
        charged with, such as starting the job and writing down the outcome.
        """
        nodes = enumerate(self.circuit.nodes)
        return {node.name: self._alone(position) for position, node in nodes if isinstance(node, View)}

    def _alone(self, position: int) -> float:
        own = self.circuit.below([position])
        others_s = sum(
            seconds for report in self.reports for at, seconds in report.seconds.items() if at not in own
        )
        # Pipeline workers run side by side, so that what they spend together is over sooner.
        return self.seconds - others_s / len({report.worker for report in self.reports})
