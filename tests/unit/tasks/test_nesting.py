"""What JSON everybody can read."""

from typing import Any

import pytest

from tidemill.tasks.nesting import DEPTH, objection


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("value", [None, {}, [], "text", 1.5, {"a": [1, {"b": (2,)}]}, nested(DEPTH - 1)])
def test_plain_values_are_fine(value: Any) -> None:
    assert objection(value) is None


@pytest.mark.parametrize("value", [nested(DEPTH + 1), {"a": nested(5000)}])
def test_what_is_nested_too_deep_is_not(value: Any) -> None:
    assert "nested" in (objection(value) or "")


@pytest.mark.parametrize("value", [float("nan"), {"a": [float("inf")]}, [[-float("inf")]]])
def test_numbers_that_json_does_not_have_are_not(value: Any) -> None:
    assert "number" in (objection(value) or "")
