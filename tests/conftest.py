"""Fixtures that bring up the servers; everything else lives next to the tests that use it."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest

from servers import Postgres, PostgresServer, ServerMissing


def pytest_configure() -> None:
    # A terminated run cleans up as an interrupted one does; otherwise its servers would outlive it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@contextmanager
def own_postgres() -> Iterator[PostgresServer]:
    """A running server. Where none is installed the test is skipped, except in CI, where it fails."""
    try:
        server = PostgresServer()
    except ServerMissing as error:
        if os.environ.get("CI"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    with server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """The server that all tests share, started when first asked for; TIDEMILL_TEST_POSTGRES names another."""
    if url := os.environ.get("TIDEMILL_TEST_POSTGRES"):
        yield Postgres(url)
    else:
        with own_postgres() as server:
            yield server


@pytest.fixture
def postgres_url(postgres_server: Postgres) -> Iterator[str]:
    """An empty database on the shared server, dropped after the test."""
    name = f"test_{uuid4().hex}"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)


@pytest.fixture
def doomed_postgres() -> Iterator[PostgresServer]:
    """A server of the test's own, to stop and kill."""
    with own_postgres() as server:
        yield server
