from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.expressions import compile, supports  # noqa: A004
from tidemill.pipeline.plan.expression import Call, Tree, call, column, literal

LONG, DOUBLE, FLAG, TEXT = pa.int64(), pa.float64(), pa.bool_(), pa.large_string()
ROWS = pa.record_batch(
    [
        pa.array([1, None, 3, 2**63 - 1]),
        pa.array([0.0, 2.0, float("nan"), None]),
        pa.array(["a", "é", None, ""], TEXT),
    ],
    names=["long", "double", "text"],
)
A, D, S = column(0, LONG), column(1, DOUBLE), column(2, TEXT)


def add(left: Tree, right: Tree, mode: str = "ANSI") -> Call:
    return call("Add", left, right, type=LONG, mode=mode)


def one_by(divisor: Tree) -> Call:
    return call("Divide", literal(1.0, DOUBLE), divisor, type=DOUBLE, mode="ANSI")


def values(tree: Tree, rows: pa.RecordBatch = ROWS) -> list[object]:
    result = compile(tree)(rows)
    assert result.type == tree.type
    return list(result.to_pylist())


def test_a_column_is_itself() -> None:
    assert compile(A)(ROWS).equals(ROWS.column(0))


def test_a_constant_is_repeated_for_each_row() -> None:
    assert values(literal("x", TEXT)) == ["x"] * 4


def test_a_call_of_constants_is_repeated_for_each_row() -> None:
    assert values(add(literal(1, LONG), literal(2, LONG))) == [3] * 4


def test_a_null_constant_makes_null() -> None:
    assert values(add(A, literal(None, LONG))) == [None] * 4


@pytest.mark.parametrize("length", [0, 1, 4])
def test_a_nested_constant_serves_any_number_of_rows(length: int) -> None:
    array, index = pa.large_list(pa.int32()), column(0, pa.int32())
    rows = pa.record_batch([pa.array([1, None, 0, 5][:length], pa.int32())], names=["index"])
    item = call("GetArrayItem", literal([7, 8], array), index, type=pa.int32(), mode="LEGACY")

    assert values(item, rows) == [8, None, 7, None][:length]
    assert values(literal([7, 8], array), rows) == [[7, 8]] * length


def test_a_call_of_constants_that_looks_at_only_one_of_them_is_repeated_for_each_row() -> None:
    day = pa.date32()
    tree = call("TruncDate", literal(date(2024, 5, 6), day), literal("YEAR", TEXT), type=day)

    assert values(tree) == [date(2024, 1, 1)] * 4
    moment = pa.timestamp("us", "UTC")
    noon = literal(datetime(2024, 5, 6, 12, tzinfo=UTC), moment)
    tree = call("TruncTimestamp", literal("YEAR", TEXT), noon, type=moment, zone="UTC")
    assert values(tree) == [datetime(2024, 1, 1, tzinfo=UTC)] * 4


def test_substring_takes_null_constants() -> None:
    nothing = literal(None, pa.int32())

    assert values(call("Substring", S, nothing, nothing, type=TEXT)) == [None] * 4


def test_overflow_raises_with_the_condition_of_spark() -> None:
    with pytest.raises(StepAborted, match=r"^\[ARITHMETIC_OVERFLOW\] "):
        compile(add(A, literal(1, LONG)))(ROWS)


def test_overflow_wraps_in_legacy_mode() -> None:
    assert values(add(A, literal(1, LONG), "LEGACY")) == [2, None, 4, -(2**63)]


def test_overflow_is_null_in_try_mode() -> None:
    assert values(add(A, literal(1, LONG), "TRY")) == [2, None, 4, None]


def test_no_rows_raise_nothing() -> None:
    assert values(one_by(literal(0.0, DOUBLE)), ROWS.slice(0, 0)) == []


def test_a_null_row_hides_the_value_under_it() -> None:
    hidden = pa.array([2**63 - 1, 1], mask=pa.array([True, False]).to_numpy(zero_copy_only=False))

    assert values(add(A, literal(1, LONG)), pa.record_batch([hidden], names=["long"])) == [None, 2]


def test_a_slice_has_the_answers_of_its_rows() -> None:
    tree = call("Remainder", A, literal(2, LONG), type=LONG, mode="ANSI")

    assert values(tree, ROWS.slice(1, 2)) == [None, 1]


def test_a_branch_not_taken_does_not_raise() -> None:
    zero = call("EqualTo", D, literal(0.0, DOUBLE), type=FLAG)

    assert values(call("If", zero, literal(-1.0, DOUBLE), one_by(D), type=DOUBLE))[:2] == [-1.0, 0.5]


def test_a_branch_taken_raises() -> None:
    zero = call("EqualTo", D, literal(0.0, DOUBLE), type=FLAG)
    tree = call("If", zero, one_by(D), literal(-1.0, DOUBLE), type=DOUBLE)

    with pytest.raises(StepAborted, match=r"^\[DIVIDE_BY_ZERO\] "):
        compile(tree)(ROWS)


def test_what_logic_need_not_know_is_not_evaluated() -> None:
    nonzero = call("Not", call("EqualTo", D, literal(0.0, DOUBLE), type=FLAG), type=FLAG)
    large = call("GreaterThan", one_by(D), literal(0.4, DOUBLE), type=FLAG)

    assert values(call("And", nonzero, large, type=FLAG)) == [False, True, True, None]


def test_later_arguments_of_coalesce_are_not_evaluated() -> None:
    tree = call("Coalesce", D, one_by(literal(0.0, DOUBLE)), type=DOUBLE)

    assert values(tree, ROWS.slice(0, 2)) == [0.0, 2.0]
    with pytest.raises(StepAborted):
        compile(tree)(ROWS)


def test_an_argument_after_a_null_one_is_not_evaluated() -> None:
    rows = pa.record_batch([pa.array([None], LONG), pa.array([0.0])], names=["long", "double"])
    cast = call("Cast", A, type=DOUBLE, mode="ANSI")

    assert values(call("Subtract", cast, one_by(D), type=DOUBLE, mode="ANSI"), rows) == [None]


def test_nan_is_equal_to_itself_and_greater_than_all() -> None:
    nan = literal(float("nan"), DOUBLE)

    assert values(call("EqualTo", D, nan, type=FLAG)) == [False, False, True, None]
    assert values(call("GreaterThanOrEqual", D, literal(2.0, DOUBLE), type=FLAG)) == [False, True, True, None]


def test_decimals_are_rounded_half_up_with_every_carry() -> None:
    wide, fine, kind = pa.decimal128(38, 18), pa.decimal128(38, 37), pa.decimal128(38, 17)
    rows = pa.record_batch(
        [pa.array([Decimal("99999999999999999999.999999999999999999")], wide)], names=["x"]
    )
    tree = call("Add", column(0, wide), literal(Decimal(0), fine), type=kind, mode="ANSI")

    assert values(tree, rows) == [Decimal("100000000000000000000.00000000000000000")]


def test_supports_names_the_function_that_is_not_proved_with_its_types() -> None:
    unproved = call("Soundex", S, type=TEXT)

    assert supports(add(A, A)) is None
    assert supports(call("IsNull", unproved, type=FLAG)) == "Soundex(string)"
    assert supports(add(A, A, "OTHER")) == "Add(bigint, bigint, mode=OTHER)"
    assert supports(call("Cast", D, type=TEXT, mode="ANSI")) == "Cast(double as string, mode=ANSI)"


def test_what_is_not_supported_is_not_compiled() -> None:
    with pytest.raises(ValueError, match="Soundex"):
        compile(call("Soundex", S, type=TEXT))
