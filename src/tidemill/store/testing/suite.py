"""The whole suite. A backend is one of ours when it passes this, unchanged."""

import pytest_asyncio

from tidemill.store.store import Store
from tidemill.store.testing.claims import ClaimCases
from tidemill.store.testing.harness import Harness
from tidemill.store.testing.histories import HistoryCases
from tidemill.store.testing.leases import LeaseCases
from tidemill.store.testing.queries import QueryCases, ReleaseCases, WatchCases
from tidemill.store.testing.writes import WriteCases


class StoreSuite(WriteCases, LeaseCases, ClaimCases, QueryCases, WatchCases, ReleaseCases, HistoryCases):
    """Every case, for a backend whose test class gives a `harness` fixture."""

    @pytest_asyncio.fixture
    async def store(self, harness: Harness) -> Store:
        return await harness.connect()
