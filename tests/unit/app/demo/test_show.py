"""What is shown of a view: a few rows in order, with values that are not too long."""

from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from tidemill.app.demo.show import SMALL, shown, some_rows


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (Decimal("1.50"), "1.50"),
        (1 / 3, "0.333333"),
        (datetime(2024, 5, 1, 7, 8, 9, 120_000), "07:08:09.1"),
        ([1, 2], "[1, 2]"),
        ("x" * 50, "x" * 39 + "…"),
    ],
)
def test_values_are_short_texts(value: object, text: str) -> None:
    assert shown(value) == text


def test_a_small_view_is_shown_from_its_start() -> None:
    rows = pa.table({"l": [[1], [2], [3], [4]], "a": [2, 1, 2, 3], "b": ["y", "z", "x", "w"]})

    assert some_rows(rows).column("b").to_pylist() == ["z", "x", "y"]
    assert some_rows(rows.select(["l"])).num_rows == 3
    assert some_rows(rows.slice(0, 0)).num_rows == 0


def test_a_large_view_is_shown_from_its_end() -> None:
    rows = pa.table({"a": range(SMALL + 1)})

    assert some_rows(rows).column("a").to_pylist() == [SMALL, SMALL - 1, SMALL - 2]
