"""The same on a store that is shared over a network."""

import concurrent.futures
import sys
import time
from collections.abc import Iterator
from uuid import uuid4

import cloudpickle
import pytest

import tidemill
from servers import Postgres
from tidemill.api.client import Client

pytestmark = pytest.mark.long

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # nodes do not have the tests


@pytest.fixture(scope="module")
def cluster_url(postgres_server: Postgres) -> Iterator[str]:
    name = f"test_{uuid4().hex}"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)


def run_on() -> None:
    tidemill.current().reporter.report(1.0)
    time.sleep(600)


def add(number: int) -> int:
    tidemill.current().context.update(lambda state: {"sum": state.get("sum", 0) + number})
    return number


def test_functions_run_share_and_are_looked_after(client: Client) -> None:
    done: list[str] = []
    results = list(client.map(add, range(20)))
    with tidemill.connect(client.url) as other:
        running = other.submit(run_on).on_failure_or_timeout(lambda: done.append("late"), timeout_s=1.0)
        found = client.future(running.id)
        with pytest.raises(concurrent.futures.CancelledError):
            found.result(60)
    [node] = client.idle_nodes()

    assert results == list(range(20))
    assert client.context()["sum"] == 190
    assert done == ["late"]
    assert node.submit(pow, 2, 4).result(60) == 16
