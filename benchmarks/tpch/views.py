"""The tables as statements and the 22 queries with their parameters, as views can have them.

A view is a bag, so an ORDER BY stands only where a LIMIT follows, and there it ends with a key: which rows
are the first is always determined. The parameters are those with which the specification validates answers.
"""

import re
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent

VALIDATION: Mapping[str, Mapping[str, object]] = {
    "q01": {"days": 90},
    "q02": {"size": 15, "type": "BRASS", "region": "EUROPE"},
    "q03": {"segment": "BUILDING", "date": "1995-03-15"},
    "q04": {"date": "1993-07-01"},
    "q05": {"region": "ASIA", "date": "1994-01-01"},
    "q06": {"date": "1994-01-01", "discount": 0.06, "quantity": 24},
    "q07": {"nation": "FRANCE", "other": "GERMANY"},
    "q08": {"nation": "BRAZIL", "region": "AMERICA", "type": "ECONOMY ANODIZED STEEL"},
    "q09": {"color": "green"},
    "q10": {"date": "1993-10-01"},
    "q11": {"nation": "GERMANY"},
    "q12": {"mode": "MAIL", "other": "SHIP", "date": "1994-01-01"},
    "q13": {"word": "special", "other": "requests"},
    "q14": {"date": "1995-09-01"},
    "q15": {"date": "1996-01-01"},
    "q16": {"brand": "Brand#45", "type": "MEDIUM POLISHED", "sizes": "49, 14, 23, 45, 19, 3, 36, 9"},
    "q17": {"brand": "Brand#23", "container": "MED BOX"},
    "q18": {"quantity": 300},
    "q19": {
        "brand1": "Brand#12",
        "quantity1": 1,
        "brand2": "Brand#23",
        "quantity2": 10,
        "brand3": "Brand#34",
        "quantity3": 20,
    },
    "q20": {"color": "forest", "date": "1994-01-01", "nation": "CANADA"},
    "q21": {"nation": "SAUDI ARABIA"},
    "q22": {"codes": "'13', '31', '23', '29', '30', '18', '17'"},
}


def tables() -> dict[str, str]:
    """The statement that creates each table."""
    script = (HERE / "tables.sql").read_text()
    return {found[2]: found[1] for found in re.finditer(r"(CREATE TABLE (\w+) .*?);", script, re.DOTALL)}


def queries(scale: float, **instead: Mapping[str, object]) -> dict[str, str]:
    """The queries by name, for data of a scale factor; `instead` are other parameters, by query."""
    parameters = {**VALIDATION, "q11": {**VALIDATION["q11"], "fraction": f"{0.0001 / scale:.10f}"}}
    return {
        name: (HERE / "queries" / f"{name}.sql").read_text().format(**{**values, **instead.get(name, {})})
        for name, values in parameters.items()
    }


def tables_of(query: str) -> list[str]:
    """The tables that a query reads."""
    words = set(re.findall(r"\w+", re.sub("--.*", "", query)))
    return [name for name in tables() if name in words]
