"""Numbers for Prometheus: what the store did, and what the node says of itself."""

from collections.abc import Iterator

import msgspec
from fastapi import APIRouter
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from starlette.responses import Response

import tidemill
from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import require
from tidemill.app.tokens import Role
from tidemill.cluster.figures import RULES

# Of `Statistics`, by field.
_STORE = {
    "calls": "Round trips to the store",
    "conflicts": "Writes that lost to another writer",
    "unknown": "Writes whose fate could not be told",
    "settled": "Writes whose answer was lost and whose fate was read back",
    "unavailable": "Calls that the store did not answer",
}


class NodeCollector(Collector):
    """Reads the node's numbers when Prometheus asks. No label has unbounded values."""

    def __init__(self, context: NodeContext) -> None:
        self._context = context

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("tidemill_build", "This release", {"release": tidemill.__version__})
        for name, count in msgspec.structs.asdict(self._context.store.statistics()).items():
            yield CounterMetricFamily(f"tidemill_store_{name}", _STORE.get(name, name), count)
        yield GaugeMetricFamily("tidemill_ready", "1 when nothing is wrong", not self._context.problems())
        raised = {alarm.code for alarm in self._context.alarms()}
        alarm_family = GaugeMetricFamily("tidemill_alarm", "1 while the alarm is raised", labels=["code"])
        for code, _, _ in RULES:
            alarm_family.add_metric([code], code in raised)
        yield alarm_family
        for name, value in self._context.metrics().items():
            text = name.removesuffix("_total").replace("_", " ")
            family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            yield family(f"tidemill_{name}", text, value)


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(tags=["health"], dependencies=[require(Role.VIEWER)])
    registry = CollectorRegistry(auto_describe=False)
    registry.register(NodeCollector(context))
    ProcessCollector(registry=registry)

    @router.get("/metrics", response_class=Response)
    async def get_metrics() -> Response:
        """All numbers, in Prometheus' text format."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return router
