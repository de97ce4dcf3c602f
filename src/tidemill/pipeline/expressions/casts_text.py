"""Cast between text and other types. Options: `mode`, and `zone` where a timestamp is written.

Text is read as Spark reads it: white space and control characters around it are dropped. What cannot be read
raises in ANSI mode and is NULL otherwise.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.expressions import dates, decimals
from tidemill.pipeline.expressions.casts import plain
from tidemill.pipeline.expressions.evaluation import Kernel, Value
from tidemill.pipeline.expressions.kernels import (
    Numbers,
    abort,
    array,
    dtype,
    null_where,
    nulls,
    numbers,
    refuse_or_null,
)
from tidemill.pipeline.plan.expression import Call

BLANKS = "".join(map(chr, range(33))) + "\x7f"
TEXT = pa.large_string()
EMPTY = pa.scalar("", TEXT)
WHOLE = r"\A[+-]?0*[0-9]{1,19}\z"
WHOLE_OR_FRACTION = r"\A[+-]?(?:0*[0-9]{1,19}(?:\.[0-9]*)?|\.[0-9]*)\z"
DATE = r"(?s)\A(?P<year>[+-]?[0-9]{4,7})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?:[ T].*)?)?)?\z"
TRUE_WORDS = pa.array(["t", "true", "y", "yes", "1"], TEXT)
FALSE_WORDS = pa.array(["f", "false", "n", "no", "0"], TEXT)


def malformed() -> StepAborted:
    return abort("CAST_INVALID_INPUT", "The text cannot be read as the type that it is cast to.")


def refuse_or_null_text(mode: str, wrong: pa.Array, values: pa.Array) -> pa.Array:
    if not pc.any(wrong).as_py():
        return values
    if mode == "ANSI":
        raise malformed()
    return null_where(wrong, values)


def text_to_integer(call: Call) -> Kernel:
    """In LEGACY mode a fraction is cut off; otherwise it is refused."""
    mode, kind = call.options["mode"], pa.decimal128(38, 0)
    grammar = WHOLE_OR_FRACTION if mode == "LEGACY" else WHOLE
    bounds = np.iinfo(dtype(call.type))
    lowest, highest = pa.scalar(int(bounds.min), kind), pa.scalar(int(bounds.max), kind)

    def kernel(text: Value) -> pa.Array:
        clean = pc.utf8_trim(text, characters=BLANKS)
        clean = refuse_or_null_text(mode, pc.invert(pc.match_substring_regex(clean, grammar)), clean)
        digits = pc.replace_substring_regex(clean, r"\A\+?(-?)0*([0-9]*)(?:\..*)?\z", r"\1 0\2")
        digits = pc.replace_substring_regex(digits, r" 0([0-9]+)|( )", r"\1")
        read = pc.replace_substring_regex(digits, r"\A-?\z", "0").cast(kind)
        wrong = pc.or_(pc.less(read, lowest), pc.greater(read, highest))
        return refuse_or_null_text(mode, wrong, read).cast(call.type)

    return kernel


def text_to_boolean(call: Call) -> Kernel:
    mode = call.options["mode"]

    def kernel(text: Value) -> pa.Array:
        word = pc.ascii_lower(pc.utf8_trim(text, characters=BLANKS))
        true, false = pc.is_in(word, value_set=TRUE_WORDS), pc.is_in(word, value_set=FALSE_WORDS)
        missing = pc.is_null(word)
        wrong = pc.invert(pc.or_(missing, pc.or_(true, false)))
        return refuse_or_null_text(mode, wrong, null_where(missing, true))

    return kernel


def text_to_date(call: Call) -> Kernel:
    """`year[-month[-day[ anything]]]`, the year of four to seven digits."""
    mode = call.options["mode"]

    def kernel(text: Value) -> pa.Array:
        fields = pc.extract_regex(pc.utf8_trim(text, characters=BLANKS), DATE)
        year, month, day = (_field(fields, name) for name in ("year", "month", "day"))
        first = dates.first_day((year - 1970) * 12 + np.clip(month, 1, 12) - 1)
        following = dates.first_day((year - 1970) * 12 + np.clip(month, 1, 12))
        days = first + day - 1
        wrong = (month < 1) | (month > 12) | (day < 1) | (days >= following) | (days != days.astype(np.int32))
        wrong |= nulls(fields) if fields.null_count else False
        missing = refuse_or_null(mode, wrong, nulls(text), malformed)
        return array(days.astype(np.int32), call.type, missing)

    return kernel


def _field(fields: pa.Array, name: str) -> Numbers:
    """A number of the match; 1 where it is absent."""
    digits = pc.utf8_ltrim(pc.struct_field(fields, name), characters="+")
    digits = pc.if_else(pc.equal(digits, EMPTY), pa.scalar("1", pa.string()), digits)
    return numbers(pc.coalesce(digits.cast(pa.int64()), pa.scalar(1, pa.int64())))


def decimal_to_text(call: Call) -> Kernel:
    """All digits of the scale; in LEGACY mode small numbers have an exponent, as Java and Arrow write it."""
    if call.options["mode"] == "LEGACY":
        return plain(call)
    scale = call.arguments[0].type.scale

    def kernel(value: Value) -> pa.Array:
        whole = decimals.relabel(value, 38, 0)
        digits = pc.utf8_lpad(pc.abs(whole).cast(TEXT), scale + 1, padding="0")
        if scale:
            tail = pc.utf8_slice_codeunits(digits, -scale, None)
            digits = pc.binary_join_element_wise(
                pc.utf8_slice_codeunits(digits, 0, -scale), tail, pa.scalar(".", TEXT)
            )
        sign = pc.if_else(pc.less(whole, pa.scalar(0, whole.type)), pa.scalar("-", TEXT), EMPTY)
        return pc.binary_join_element_wise(sign, digits, EMPTY)

    return kernel


def date_to_text(value: Value) -> pa.Array:
    return _written_date(numbers(value), nulls(value))


def timestamp_to_text(value: Value) -> pa.Array:
    """`year-month-day hour:minute:second`, with as many digits of the fraction as it has."""
    time, missing = numbers(value), nulls(value)
    date = _written_date(time // dates.DAY_US, missing)
    clock = [digits(time // unit % many, 2) for unit, many in dates.CLOCK]
    fraction = pc.binary_join_element_wise(pa.scalar(".", TEXT), digits(time % 1_000_000, 6), EMPTY)
    fraction = pc.utf8_rtrim(pc.utf8_rtrim(fraction, characters="0"), characters=".")
    colon, space = pa.scalar(":", TEXT), pa.scalar(" ", TEXT)
    return pc.binary_join_element_wise(
        date, space, pc.binary_join_element_wise(*clock, colon), fraction, EMPTY
    )


def _written_date(days: Numbers, missing: Numbers | None) -> pa.Array:
    month = dates.months(days)
    year = written_year(month // 12 + 1970)
    rest = digits(month % 12 + 1, 2), digits(days - dates.first_day(month) + 1, 2)
    text = pc.binary_join_element_wise(year, *rest, pa.scalar("-", TEXT))
    return text if missing is None else null_where(pa.array(missing), text)


def written_year(year: Numbers) -> pa.Array:
    """In four digits at least; years after 9999 have a plus sign."""
    sign = pc.if_else(
        pa.array(year < 0),
        pa.scalar("-", TEXT),
        pc.if_else(pa.array(year > 9999), pa.scalar("+", TEXT), EMPTY),
    )
    return pc.binary_join_element_wise(sign, digits(np.abs(year), 4), EMPTY)


def digits(values: Numbers, width: int) -> pa.Array:
    return pc.utf8_lpad(pa.array(values).cast(TEXT), width, padding="0")
