"""What an expression does may be up to a setting of the session."""

import pytest
from pyspark.sql import SparkSession

from tidemill.pipeline.plan.node import SparkSelect
from unit.sql.scripts import Script

POLICY = "spark.sql.legacy.timeParserPolicy"
VIEW = "CREATE TABLE t (at TIMESTAMP); CREATE VIEW v AS SELECT date_format(at, 'yyyy') AS y FROM t"


@pytest.mark.parametrize(("policy", "in_spark"), [("EXCEPTION", False), ("LEGACY", True)])
def test_the_old_formatter_is_for_spark(spark: SparkSession, policy: str, in_spark: bool) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set(POLICY, policy)

    nodes = Script(session).run(VIEW).circuit.nodes

    assert any(isinstance(node, SparkSelect) for node in nodes) is in_spark
