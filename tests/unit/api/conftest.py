"""A cluster for the tests of each file: one node on SQLite."""

from collections.abc import Iterator

import pytest

import tidemill
from tidemill.api.client import Client
from upnode import UpNode, upnode


@pytest.fixture(scope="module")
def cluster_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('cluster')}/store.db"


@pytest.fixture(scope="module")
def node(cluster_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpNode]:
    with upnode(cluster_url, tmp_path_factory.mktemp("nodes"), "vm-1") as running:
        yield running


@pytest.fixture(scope="module")
def client(cluster_url: str, node: UpNode) -> Iterator[Client]:
    with tidemill.connect(cluster_url) as connected:
        yield connected
