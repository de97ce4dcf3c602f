"""Numbers for Prometheus: what the store did, and what the node says of itself."""

import asyncio
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
from tidemill.app.http.routes.cluster import count_partitions
from tidemill.app.tokens import Role
from tidemill.cluster.figures import RULES
from tidemill.cluster.tally import FAILED_ALARM, Tally, failures
from tidemill.store import Store, StoreError

PATIENCE_S = 1.0
"""How long the store may take to count partitions: the other numbers do not wait for it."""

# Of `Statistics`, by field.
_STORE = {
    "calls": "Round trips to the store",
    "conflicts": "Writes that lost to another writer",
    "unknown": "Writes whose fate could not be told",
    "settled": "Writes whose answer was lost and whose fate was read back",
    "unavailable": "Calls that the store did not answer",
}


class NodeCollector(Collector):
    """Reads the node's numbers when Prometheus asks. No label has unbounded values.

    `partitions` is to be set before; None while they cannot be counted.
    """

    def __init__(self, context: NodeContext) -> None:
        self.partitions: list[Tally] | None = None
        self._context = context

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("tidemill_build", "This release", {"release": tidemill.__version__})
        for name, count in msgspec.structs.asdict(self._context.store.statistics()).items():
            yield CounterMetricFamily(f"tidemill_store_{name}", _STORE.get(name, name), count)
        yield GaugeMetricFamily("tidemill_ready", "1 when nothing is wrong", not self._context.problems())
        yield self._alarms()
        yield self._partitions()
        for name, value in self._context.metrics().items():
            text = name.removesuffix("_total").replace("_", " ")
            family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            yield family(f"tidemill_{name}", text, value)

    def _alarms(self) -> Metric:
        family = GaugeMetricFamily("tidemill_alarm", "1 while the alarm is raised", labels=["code"])
        raised = {alarm.code for alarm in self._context.alarms()}
        for code, _, _ in RULES:
            family.add_metric([code], code in raised)
        if self.partitions is not None:
            family.add_metric([FAILED_ALARM], bool(failures(self.partitions)))
        return family

    def _partitions(self) -> Metric:
        about = "Partitions of the whole cluster; every node tells the same"
        family = GaugeMetricFamily("tidemill_partitions", about, labels=["handler", "state"])
        for tally in self.partitions or []:
            for state, count in tally.states.items():
                family.add_metric([tally.handler, state], count)
        return family


async def counted(store: Store) -> list[Tally] | None:
    """How far partitions are; None when the store does not say so soon."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return (await count_partitions(store))[0]
    except (TimeoutError, StoreError):
        return None


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(tags=["health"], dependencies=[require(Role.VIEWER)])
    registry = CollectorRegistry(auto_describe=False)
    collector = NodeCollector(context)
    registry.register(collector)
    ProcessCollector(registry=registry)

    @router.get("/metrics", response_class=Response)
    async def get_metrics() -> Response:
        """All numbers, in Prometheus' text format."""
        collector.partitions = await counted(context.store)
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return router
