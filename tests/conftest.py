"""Fixtures that bring up the servers; everything else lives next to the tests that use it."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn
from uuid import uuid4

import hypothesis
import pytest

from servers import Postgres, PostgresServer, S3Server, ServerMissing
from tidemill.pipeline.runtimes.java import Java, NoJava, prepare_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# How long an example takes is the machine's matter.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")


def pytest_configure() -> None:
    # A terminated run cleans up as an interrupted one does; otherwise its servers would outlive it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def do_without(reason: object) -> NoReturn:
    """Skip the test, except in CI, where it fails: there everything has to be installed."""
    if os.environ.get("CI"):
        pytest.fail(str(reason), pytrace=False)
    pytest.skip(str(reason))


@contextmanager
def own_postgres() -> Iterator[PostgresServer]:
    """A running server."""
    try:
        server = PostgresServer()
    except ServerMissing as error:
        do_without(error)
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


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """The S3 that all tests share, started when first asked for."""
    with S3Server() as server:
        yield server


@pytest.fixture
def s3_address(s3_server: S3Server) -> str:
    """The address of a place for blobs that nobody else has."""
    return s3_server.address(f"test-{uuid4().hex}")


@pytest.fixture(scope="session")
def java() -> Java:
    """A Java that Spark runs on, and that PySpark will use."""
    try:
        return prepare_java()
    except NoJava as error:
        do_without(error)


@pytest.fixture(scope="session")
def spark(java: Java) -> "Iterator[SparkSession]":
    """The Spark that all tests share, on two threads, started when first asked for.

    Settings that a test changes with `spark.conf.set` are for the test to put back.
    """
    # By name, as this loads Spark, which most runs do without.
    create_session = import_module("tidemill.pipeline.runtimes.session").create_session
    quiet = {"spark.driver.memory": "1g", "spark.log.level": "ERROR"}
    session = create_session("tests", master="local[2]", settings=quiet)
    yield session
    session.stop()
