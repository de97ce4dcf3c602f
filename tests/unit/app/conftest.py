"""A node without a cluster, and clients that talk to its app."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack

import httpx2
import pytest
import structlog

from tidemill.app.http import ClusterView, NodeView, build_app
from tidemill.app.settings import Settings
from tidemill.cluster.figures import Alarm
from tidemill.store import Store, open_store
from tidemill.tasks.blobs import Shelves
from tidemill.tasks.claim import Seat
from tidemill.tasks.registry import Registry
from tidemill.tasks.remote.dispatch import Dispatch
from tidemill.tasks.runner import Plugins

URL = "http://127.0.0.1:7433"


async def _welcome(_token: str) -> str | None:
    return None


class StillTasking:
    """What a node has to do with tasks, without running any: it knows the plugin `words`."""

    def __init__(self, store: Store) -> None:
        self.registry = Registry(store)
        self.shelves = Shelves(store)
        self.plugins = Plugins(programs={"words": ["perl", "word_count.pl"]})
        self.dispatch = Dispatch(self.registry, Seat("alpha", "token-a", 5000), self.shelves, _welcome)


class StillNode:
    """What a node's routes may ask, answered from what a test puts here."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.tasking = StillTasking(store)
        self.view = ClusterView("token-a", "alpha", "token-a", 7, 3, True, 2.5)
        self.listed = [
            NodeView("alpha", "token-a", "http://127.0.0.1:7433", 4, "0.1.0", 1, 2, True, True, ("tides",)),
            NodeView("<b>eve</b>", "token-b", "http://127.0.0.1:7434", 4, "0.1.0", 1, 2, False, False),
        ]
        self.troubles: list[str] = []
        self.raised: list[Alarm] = []

    def cluster(self) -> ClusterView:
        return self.view

    async def nodes(self) -> list[NodeView]:
        return self.listed

    def problems(self) -> list[str]:
        return self.troubles

    def alarms(self) -> list[Alarm]:
        return self.raised

    def metrics(self) -> Mapping[str, float]:
        return {"lease_renewals_total": 12, "lease_age_seconds": 0.25, "term": 7}


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """Logs are configured for the whole process: put back what a test changed."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


MakeClient = Callable[..., httpx2.AsyncClient]


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store("memory:") as store:
        yield store


@pytest.fixture
def node(store: Store) -> StillNode:
    return StillNode(store, Settings())


@pytest.fixture
async def make_client(node: StillNode) -> AsyncIterator[MakeClient]:
    """A client of the node's app; `token` is sent as bearer, `headers` with every request."""
    async with AsyncExitStack() as stack:

        def make(token: str | None = None, **headers: str) -> httpx2.AsyncClient:
            bearer = {"Authorization": f"Bearer {token}"} if token else {}
            client = httpx2.AsyncClient(
                transport=httpx2.ASGITransport(app=build_app(node), raise_app_exceptions=False),
                base_url=URL,
                headers=bearer | headers,
            )
            stack.push_async_callback(client.aclose)
            return client

        yield make


@pytest.fixture
def client(make_client: MakeClient) -> httpx2.AsyncClient:
    return make_client()
