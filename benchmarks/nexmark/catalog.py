"""The tables and queries as text."""

import re
from pathlib import Path

_HERE = Path(__file__).parent
_NAMES = ("person", "auction", "bid", "side_input")


def _text(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


TABLES = _text("tables.sql")
FUNCTIONS = _text("functions.sql")
"""What a session has to know before queries are planned in it."""
QUERIES = {f"q{number}": _text(f"queries/q{number}.sql") for number in range(24)}


def reads(query: str) -> tuple[str, ...]:
    """The tables that a query reads."""
    found = set(re.findall(r"\b(?:FROM|JOIN) (\w+)", query))
    return tuple(name for name in _NAMES if name in found)
