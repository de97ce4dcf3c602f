"""Each rule of lowering has a file of cases: a script, and the circuit it must become."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidemill.sql.catalog import Catalog
from tidemill.sql.explain import explain

FIXTURES = Path(__file__).parents[3] / "fixtures" / "sql"
TABLES = """
CREATE TABLE bids (auction BIGINT, price BIGINT, bidder STRING, at TIMESTAMP, score DOUBLE);
CREATE TABLE auctions (id BIGINT PRIMARY KEY, category STRING NOT NULL, reserve BIGINT);
CREATE TABLE visits (day DATE, page STRING, user BIGINT, PRIMARY KEY (day, page));
"""


def cases() -> Iterator[object]:
    """The cases of all files: `== name`, the statements, `--`, the circuit."""
    for path in sorted(FIXTURES.glob("*.txt")):
        for case in path.read_text().split("== ")[1:]:
            name, _, rest = case.partition("\n")
            statements, _, circuit = rest.partition("\n--\n")
            yield pytest.param(statements, circuit.strip("\n"), id=f"{path.stem}: {name}")


@pytest.mark.parametrize(("statements", "circuit"), list(cases()))
def test_a_script_becomes_this_circuit(
    planned: Callable[[str], Catalog], statements: str, circuit: str
) -> None:
    catalog = planned(TABLES + statements)

    assert explain(catalog.circuit) == circuit
