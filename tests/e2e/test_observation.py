"""What real nodes report about themselves, and what others see of them when they fail."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from crash.stopping import stop
from e2e.nodes import agreed, nodes, until
from tidemill.app.cli.cluster_view import cluster_view
from tidemill.store import open_store

pytestmark = pytest.mark.crash


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


def shown(url: str) -> dict[str, Any]:
    words = [sys.executable, "-m", "tidemill", "cluster", "show", "--store", url, "--json"]
    answer: dict[str, Any] = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    return answer


async def test_a_stopped_node_is_seen_by_others_and_says_itself_that_it_was_late(
    store_url: str, tmp_path: Path
) -> None:
    async with nodes(store_url, tmp_path, 2, "--ttl-s", "2") as running, open_store(store_url) as store:
        await agreed(running)

        async def all_reported() -> bool:
            return all(node["figures"] for node in (await cluster_view(store))["nodes"])

        async def raised(code: str, name: str) -> bool:
            alarms = (await cluster_view(store))["alarms"]
            return (name, code) in {(alarm["node"], alarm["code"]) for alarm in alarms}

        await until(all_reported)
        stopped = running[0]
        stop(stopped.pid, store_url)
        await until(lambda: raised("node.silent", stopped.name))
        stopped.send(signal.SIGCONT)
        await until(lambda: raised("lease.late", stopped.name))

        seen = next(node for node in shown(store_url)["nodes"] if node["name"] == stopped.name)
        assert seen["figures"]["total"]["late"] >= 1
        assert seen["figures"]["total"]["renewals"] > 1
        async with httpx2.AsyncClient(base_url=stopped.address) as client:
            metrics = (await client.get("/metrics")).text
        assert 'tidemill_alarm{code="lease.late"} 1.0' in metrics
