"""Scripts planned on the shared Spark, without a pipeline."""

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from tidemill.sql.catalog import Catalog
from unit.sql.scripts import Script


@pytest.fixture
def script(spark: SparkSession) -> Script:
    return Script(spark)


@pytest.fixture
def planned(spark: SparkSession) -> Callable[[str], Catalog]:
    """The catalog after a script."""
    return lambda text: Script(spark).run(text)
