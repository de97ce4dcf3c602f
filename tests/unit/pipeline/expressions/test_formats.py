import pyarrow as pa
import pytest

from tidemill.pipeline.expressions import compile, supports  # noqa: A004
from tidemill.pipeline.plan.expression import Call, call, column, literal

TEXT, TIME = pa.large_string(), pa.timestamp("us", "UTC")
MOMENTS = [0, None, 1709251199_999_999, -(2**63), 2**63 - 1]
ROWS = pa.record_batch([pa.array(MOMENTS, pa.int64()).view(TIME)], names=["at"])


def formatted(pattern: str, policy: str = "EXCEPTION", zone: str = "UTC") -> Call:
    return call(
        "DateFormatClass", column(0, TIME), literal(pattern, TEXT), type=TEXT, policy=policy, zone=zone
    )


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (
            "yyyy-MM-dd HH:mm",
            ["1970-01-01 00:00", None, "2024-02-29 23:59", "-290308-12-21 19:59", "+294247-01-10 04:00"],
        ),
        ("E d.M.yy 'at' h a", ["Thu 1.1.70 at 12 AM", None, "Thu 29.2.24 at 11 PM"]),
        ("ss,SSSSSSSS", ["00,00000000", None, "59,99999900"]),
    ],
)
def test_a_timestamp_is_written_by_a_pattern(pattern: str, expected: list[object]) -> None:
    assert compile(formatted(pattern))(ROWS).to_pylist()[: len(expected)] == expected


@pytest.mark.parametrize(
    "pattern", ["", "'only text'", "yyyyy", "QQ", "T", "yyyy''MM", "'a''b' yyyy", "yyyy'", "yyyy+MM"]
)
def test_other_patterns_are_for_spark(pattern: str) -> None:
    assert supports(formatted(pattern)) is not None


def test_so_is_the_old_formatter_and_another_zone() -> None:
    assert supports(formatted("yyyy")) is None
    assert supports(formatted("yyyy", policy="LEGACY")) is not None
    assert supports(formatted("yyyy", zone="Europe/Berlin")) is not None
