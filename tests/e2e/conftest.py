"""Pipelines to test the library on."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidemill
from e2e.auctions import SCRIPT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.api.pipeline import RuntimeName


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "pipeline"


@pytest.fixture(params=["inline", "batch"])
def runtime(request: pytest.FixtureRequest) -> "RuntimeName":
    name: RuntimeName = request.param
    return name


@pytest.fixture
def pipeline(spark: "SparkSession", folder: Path) -> Iterator[tidemill.Pipeline]:
    """Open, with the tables and views of `SCRIPT`, on the inline runtime."""
    with tidemill.Pipeline(spark, folder, runtime="inline") as opened:
        opened.sql(SCRIPT)
        yield opened
