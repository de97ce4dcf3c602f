"""The tables and queries as text."""

import re
from pathlib import Path

_HERE = Path(__file__).parent


def _text(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


TABLES = {name: text for text, name in re.findall(r"(CREATE TABLE (\w+)[^;]*)", _text("tables.sql"))}
FUNCTIONS = _text("functions.sql")
"""What a session has to know before queries are planned in it."""
QUERIES = {f"q{number}": _text(f"queries/q{number}.sql") for number in range(24)}


def reads(query: str) -> tuple[str, ...]:
    """The tables that a query reads."""
    found = set(re.findall(r"\b(?:FROM|JOIN) (\w+)", query))
    return tuple(name for name in TABLES if name in found)
