"""Explain shows what a circuit does; as data it says the same."""

import json

from tidemill.sql.explain import describe
from unit.sql.scripts import Script


def test_each_node_says_what_it_does_keeps_and_costs(script: Script) -> None:
    catalog = script.run(
        "CREATE TABLE t (a INT PRIMARY KEY, b STRING);"
        "CREATE VIEW v AS SELECT soundex(b) AS s, count(*) AS n FROM t GROUP BY soundex(b)"
    )
    entries = describe(catalog.circuit, {})["nodes"]

    assert [entry["node"] for entry in entries] == [
        "Source",
        "SparkSelect",
        "Combine",
        "Exchange",
        "Aggregate",
        "View",
    ]
    assert [entry["stage"] for entry in entries] == [0, 1, 1, 2, 2, 2]
    assert [entry["in_spark"] for entry in entries] == [False, True, False, False, False, False]
    assert entries[1]["does"] == (
        "in Spark, over c0… = (a, b): soundex(c1) /* not proved: SoundEx */ AS _groupingexpression"
    )
    assert entries[4]["keeps"] == "a total per group"
    assert entries[4]["cost"] == "O(change · log state)"
    assert json.loads(json.dumps(entries)) == entries
