"""The functions that a differential test has proved equal to Spark, as data.

An entry says for which types of arguments and which options its function is proved, and how it is compiled.
`tests/property/test_expressions.py` reads this table and proves every combination that it claims: an entry
without such a proof fails there. To add a function, add its kernel, an entry here and its SQL there.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline.expressions import (
    arithmetic,
    casts,
    casts_text,
    casts_time,
    collections,
    comparison,
    conditionals,
    dates,
    decimals,
    formats,
    letters,
    nested,
    nulls,
    patterns,
    rounding,
    strings,
)
from tidemill.pipeline.expressions.entry import (
    ANY,
    BOOLEAN,
    BYTES,
    DATE,
    DECIMAL,
    FLOATS,
    INTEGERS,
    MODES,
    ORDINALS,
    PLAIN,
    STRICT_OR_LAX,
    TEXT,
    TIMES,
    UTC,
    ZONED,
    Kinds,
    Proved,
    alike,
    known,
)
from tidemill.pipeline.expressions.evaluation import Build, always, intolerant, total
from tidemill.pipeline.plan.expression import Call, Literal


def find(call: Call) -> Proved | None:
    """The entry that claims the call; None if it is not proved."""
    return next((entry for entry in BY_FUNCTION.get(call.function, ()) if entry.claims(call)), None)


def _mode(*modes: str) -> Mapping[str, tuple[str, ...]]:
    return {"mode": modes}


def _comparisons() -> Iterator[Proved]:
    ordered = {
        "EqualTo": comparison.equal_to,
        "LessThan": comparison.less_than,
        "LessThanOrEqual": comparison.less_than_or_equal,
        "GreaterThan": comparison.greater_than,
        "GreaterThanOrEqual": comparison.greater_than_or_equal,
    }
    for function, build in ordered.items():
        yield Proved(function, (PLAIN, PLAIN), intolerant(build), same=True)
    yield Proved("EqualNullSafe", (PLAIN, PLAIN), total(comparison.equal_null_safe), same=True)
    yield Proved(
        "Greatest", (PLAIN, PLAIN), total(comparison.greatest), same=True, repeats=1, when=_has_members
    )
    yield Proved("Least", (PLAIN, PLAIN), total(comparison.least), same=True, repeats=1, when=_has_members)
    yield Proved("And", (BOOLEAN, BOOLEAN), comparison.both)
    yield Proved("Or", (BOOLEAN, BOOLEAN), comparison.one_of)
    yield Proved("Not", (BOOLEAN,), intolerant(always(pc.invert)))
    yield Proved("In", (PLAIN, PLAIN, PLAIN), comparison.member, same=True, repeats=1, when=_has_members)
    yield Proved(
        "InSet",
        (PLAIN, PLAIN),
        comparison.member_of_set,
        same=True,
        repeats=1,
        when=_constant_members,
    )


def _has_members(call: Call) -> bool:
    return len(call.arguments) > 1


def _constant_members(call: Call) -> bool:
    return _has_members(call) and all(isinstance(member, Literal) for member in call.arguments[1:])


def _nulls_and_conditionals() -> Iterator[Proved]:
    yield Proved("IsNull", (ANY,), total(always(pc.is_null)))
    yield Proved("IsNotNull", (ANY,), total(always(pc.is_valid)))
    yield Proved("IsNaN", (FLOATS,), total(always(nulls.is_nan)))
    yield Proved("NaNvl", (FLOATS, FLOATS), nulls.not_nan, same=True)
    yield Proved("Coalesce", (ANY, ANY), nulls.coalesce, same=True, repeats=1, when=_not_empty)
    yield Proved(
        "AtLeastNNonNulls", (PLAIN, PLAIN), total(nulls.at_least_non_null), repeats=1, when=_not_empty
    )
    yield Proved("KnownNotNull", (PLAIN,), total(always(nulls.itself)))
    yield Proved("KnownNullable", (PLAIN,), total(always(nulls.itself)))
    yield Proved("KnownFloatingPointNormalized", (PLAIN,), total(always(nulls.itself)))
    yield Proved("NormalizeNaNAndZero", (FLOATS,), intolerant(nulls.normalize))
    yield Proved("If", (BOOLEAN, ANY, ANY), conditionals.if_, when=_chooses)
    yield Proved("CaseWhen", (BOOLEAN, ANY, ANY), conditionals.case_when, repeats=1, when=_chooses)


def _chooses(call: Call) -> bool:
    """Conditions alternate with values of one type; nullability within it may differ."""
    paired = len(call.arguments) // 2 * 2
    conditions, values = call.arguments[:paired:2], (*call.arguments[1:paired:2], *call.arguments[paired:])
    return (
        paired > 0
        and all(condition.type == pa.bool_() for condition in conditions)
        and alike([call.type, *(value.type for value in values)])
    )


def _not_empty(call: Call) -> bool:
    return bool(call.arguments)


def _arithmetic() -> Iterator[Proved]:
    for function, plain, decimal in (
        ("Add", arithmetic.add, decimals.add),
        ("Subtract", arithmetic.subtract, decimals.subtract),
        ("Multiply", arithmetic.multiply, decimals.multiply),
    ):
        yield Proved(function, (INTEGERS | FLOATS,) * 2, intolerant(plain), options=_mode(*MODES), same=True)
        yield Proved(function, (DECIMAL, DECIMAL), intolerant(decimal), options=_mode(*MODES))
    for function, plain, decimal in (
        ("UnaryMinus", arithmetic.negate, pc.negate),
        ("Abs", arithmetic.absolute, pc.abs),
    ):
        yield Proved(function, (INTEGERS | FLOATS,), intolerant(plain), options=_mode(*STRICT_OR_LAX))
        yield Proved(function, (DECIMAL,), intolerant(always(decimal)), when=decimals.short)
    for function, bitwise in (
        ("BitwiseAnd", pc.bit_wise_and),
        ("BitwiseOr", pc.bit_wise_or),
        ("BitwiseXor", pc.bit_wise_xor),
    ):
        yield Proved(function, (INTEGERS, INTEGERS), intolerant(always(bitwise)), same=True)
    for function, shifted in (("ShiftLeft", np.left_shift), ("ShiftRight", np.right_shift)):
        shifts = (frozenset({"integer", "long"}), frozenset({"integer"}))
        yield Proved(function, shifts, intolerant(arithmetic.shift(shifted)))
    yield Proved("BitwiseNot", (INTEGERS,), intolerant(always(pc.bit_wise_not)))
    yield Proved("UnscaledValue", (DECIMAL,), intolerant(always(decimals.unscaled)), when=decimals.compact)
    yield Proved(
        "MakeDecimal",
        (frozenset({"long"}),),
        intolerant(decimals.make),
        to=DECIMAL,
        options=_mode(*STRICT_OR_LAX),
    )


def _division() -> Iterator[Proved]:
    yield Proved(
        "Divide",
        (frozenset({"double"}),) * 2,
        arithmetic.division(always(pc.divide), arithmetic.divided_by_zero),
        options=_mode(*MODES),
    )
    yield Proved(
        "Divide",
        (DECIMAL, DECIMAL),
        arithmetic.division(decimals.divide, arithmetic.divided_by_zero),
        options=_mode(*MODES),
        when=decimals.divisible,
    )
    yield Proved(
        "IntegralDivide",
        (frozenset({"long"}),) * 2,
        arithmetic.division(arithmetic.integral_divide, arithmetic.divided_by_zero),
        options=_mode(*STRICT_OR_LAX),
    )
    for function, build in (("Remainder", arithmetic.remainder), ("Pmod", arithmetic.positive_modulo)):
        yield Proved(
            function,
            (INTEGERS | FLOATS,) * 2,
            arithmetic.division(build, arithmetic.remainder_by_zero),
            options=_mode(*STRICT_OR_LAX),
            same=True,
        )


def _casts() -> Iterator[Proved]:
    pairs: tuple[tuple[Kinds, Kinds, Build], ...] = (
        (INTEGERS, INTEGERS, casts.integer_to_integer),
        (INTEGERS, FLOATS, casts.unchecked),
        (INTEGERS, DECIMAL, casts.integer_to_decimal),
        (INTEGERS | FLOATS, BOOLEAN, casts.to_boolean),
        (FLOATS, INTEGERS, casts.float_to_integer),
        (FLOATS, FLOATS, casts.unchecked),
        (BOOLEAN, INTEGERS | FLOATS, casts.plain),
        (BOOLEAN, DECIMAL, casts.boolean_to_decimal),
        (DECIMAL, DECIMAL, casts.decimal_to_decimal),
        (DECIMAL, frozenset({"long"}), casts.decimal_to_integer),
        (DECIMAL, FLOATS, casts.decimal_to_float),
        (DECIMAL, BOOLEAN, casts.decimal_to_boolean),
    )
    for source, target, build in pairs:
        yield Proved("Cast", (source,), intolerant(build), to=target, options=_mode(*MODES))
    yield Proved(
        "Cast",
        (frozenset({"double"}),),
        intolerant(casts.double_to_decimal),
        to=DECIMAL,
        options=_mode(*MODES),
        when=casts.short_decimal,
    )
    yield Proved(
        "Cast",
        (DECIMAL,),
        intolerant(casts.decimal_to_integer),
        to=INTEGERS - {"long"},
        options=_mode(*MODES),
        when=casts.cut_exactly,
    )


def _casts_of_text_and_time() -> Iterator[Proved]:
    """Neither mode nor zone matter to some of them, but Catalyst always knows both."""
    texts: tuple[tuple[Kinds, Kinds, Build], ...] = (
        (TEXT, INTEGERS, casts_text.text_to_integer),
        (TEXT, BOOLEAN, casts_text.text_to_boolean),
        (TEXT, DATE, casts_text.text_to_date),
        (INTEGERS | BOOLEAN, TEXT, casts.plain),
        (DECIMAL, TEXT, casts_text.decimal_to_text),
        (DATE, TEXT, always(casts_text.date_to_text)),
    )
    for source, target, build in texts:
        yield Proved("Cast", (source,), intolerant(build), to=target, options=_mode(*MODES))
    times: tuple[tuple[Kinds, Kinds, Build], ...] = (
        (TIMES, TEXT, always(casts_text.timestamp_to_text)),
        (DATE, TIMES, casts_time.date_to_timestamp),
        (TIMES, DATE, casts_time.timestamp_to_date),
        (TIMES, TIMES, casts_time.timestamp_to_timestamp),
        (ZONED, INTEGERS, casts_time.timestamp_to_integer),
        (ZONED, frozenset({"double"}), casts_time.timestamp_to_double),
        (INTEGERS, ZONED, casts_time.integer_to_timestamp),
    )
    for source, target, build in times:
        yield Proved("Cast", (source,), intolerant(build), to=target, options={"mode": MODES, "zone": UTC})


def _strings() -> Iterator[Proved]:
    integer = frozenset({"integer"})
    yield Proved("Length", (BYTES,), intolerant(strings.length))
    yield Proved("OctetLength", (BYTES,), intolerant(always(pc.binary_length)))
    yield Proved("BitLength", (BYTES,), intolerant(always(strings.bit_length)))
    yield Proved("Substring", (TEXT, integer, integer), intolerant(strings.substring))
    yield Proved("Concat", (BYTES, BYTES), intolerant(strings.concat), same=True, repeats=1, when=_not_empty)
    yield Proved("ConcatWs", (TEXT, TEXT), total(always(strings.concat_ws)), repeats=1, when=_has_members)
    for function, build in (
        ("StartsWith", strings.starts_with),
        ("EndsWith", strings.ends_with),
        ("Contains", strings.contains),
        ("StringInstr", strings.find),
    ):
        yield Proved(function, (TEXT, TEXT), intolerant(build), constants=frozenset({1}))
    yield Proved(
        "StringReplace", (TEXT, TEXT, TEXT), intolerant(strings.replace), constants=frozenset({1, 2})
    )
    for function, build in (
        ("StringTrim", strings.trim),
        ("StringTrimLeft", strings.trim_left),
        ("StringTrimRight", strings.trim_right),
    ):
        yield Proved(function, (TEXT,), intolerant(build))
        yield Proved(function, (TEXT, TEXT), intolerant(build), constants=frozenset({1}))
    for function, build in (("StringLPad", strings.pad_left), ("StringRPad", strings.pad_right)):
        yield Proved(
            function,
            (TEXT, integer, TEXT),
            intolerant(build),
            constants=frozenset({1, 2}),
            when=strings.pads_with_one_sign,
        )
    yield Proved(
        "StringLocate",
        (TEXT, TEXT, integer),
        intolerant(strings.locate),
        constants=frozenset({0, 2}),
        when=strings.from_the_start,
    )
    for function, last, build, when in (
        ("StringTranslate", TEXT, letters.translate, letters.has_no_nul),
        ("SubstringIndex", integer, strings.substring_index, strings.delimits_clearly),
    ):
        fixed = frozenset({1, 2})
        yield Proved(function, (TEXT, TEXT, last), intolerant(build), constants=fixed, when=when)
    yield Proved("Upper", (TEXT,), intolerant(always(letters.upper)))
    yield Proved("Lower", (TEXT,), intolerant(always(letters.lower)))
    yield Proved("Reverse", (TEXT,), intolerant(always(pc.utf8_reverse)))


def _patterns() -> Iterator[Proved]:
    integer = frozenset({"integer"})
    yield Proved(
        "Like",
        (TEXT, TEXT),
        intolerant(patterns.like),
        options={"escape": ("\\", "/")},
        constants=frozenset({1}),
        when=patterns.is_well_formed,
    )
    for function, arguments, build in (
        ("RLike", (TEXT, TEXT), patterns.rlike),
        ("RegExpExtract", (TEXT, TEXT, integer), patterns.regexp_extract),
        ("RegExpReplace", (TEXT, TEXT, TEXT, integer), patterns.regexp_replace),
    ):
        known = frozenset(range(1, len(arguments)))
        yield Proved(function, arguments, intolerant(build), constants=known, when=patterns.is_followed)


def _dates() -> Iterator[Proved]:
    fields = {
        "Year": dates.year,
        "Quarter": dates.quarter,
        "Month": dates.month,
        "DayOfMonth": dates.day_of_month,
        "DayOfYear": dates.day_of_year,
        "DayOfWeek": dates.day_of_week,
        "WeekDay": dates.week_day,
        "WeekOfYear": dates.week_of_year,
        "LastDay": dates.last_day,
    }
    for function, build in fields.items():
        yield Proved(function, (DATE,), intolerant(build))
    small = frozenset({"byte", "short", "integer"})
    yield Proved("DateAdd", (DATE, small), intolerant(dates.date_add))
    yield Proved("DateSub", (DATE, small), intolerant(dates.date_sub))
    yield Proved("DateDiff", (DATE, DATE), intolerant(dates.date_diff))
    yield Proved(
        "TruncDate",
        (DATE, TEXT),
        intolerant(dates.truncate_date),
        constants=frozenset({1}),
        when=dates.truncates_date,
    )
    yield Proved("AddMonths", (DATE, frozenset({"integer"})), intolerant(dates.add_months))


def _timestamps() -> Iterator[Proved]:
    for function, build in (("Hour", dates.hour), ("Minute", dates.minute), ("Second", dates.second)):
        yield Proved(function, (TIMES,), intolerant(build), options={"zone": UTC})
    for function, unit in (("UnixSeconds", 1_000_000), ("UnixMillis", 1_000), ("UnixMicros", 1)):
        yield Proved(function, (ZONED,), intolerant(dates.since_1970(unit)))
    for function, source, target in (
        ("PreciseTimestampConversion", TIMES, frozenset({"long"})),
        ("PreciseTimestampConversion", frozenset({"long"}), TIMES),
        ("UnixDate", DATE, frozenset({"integer"})),
        ("DateFromUnixDate", frozenset({"integer"}), DATE),
    ):
        yield Proved(function, (source,), intolerant(dates.reinterpret), to=target)
    yield Proved(
        "TruncTimestamp",
        (TEXT, ZONED),
        intolerant(dates.truncate_timestamp),
        options={"zone": UTC},
        constants=frozenset({0}),
        when=dates.truncates_timestamp,
    )
    for function, source, build in (
        ("DateFormatClass", TIMES, formats.date_format),
        ("FromUnixTime", frozenset({"long"}), formats.from_unixtime),
    ):
        yield Proved(
            function,
            (source, TEXT),
            intolerant(build),
            options={"zone": UTC, "policy": ("EXCEPTION", "CORRECTED")},
            constants=frozenset({1}),
            when=formats.is_known,
        )


def _nested() -> Iterator[Proved]:
    struct, collections = frozenset({"struct"}), frozenset({"array", "map"})
    yield Proved("GetStructField", (struct,), intolerant(nested.get_field), options={"ordinal": ORDINALS})
    yield Proved("CreateNamedStruct", (TEXT, ANY), total(nested.make_struct), repeats=2, when=_names_fields)
    yield Proved("CreateArray", (ANY, ANY), total(nested.make_array), same=True, repeats=1, when=_not_empty)
    yield Proved(
        "GetArrayItem",
        (frozenset({"array"}), frozenset({"integer"})),
        intolerant(nested.get_item),
        options=_mode(*STRICT_OR_LAX),
    )
    yield Proved("Size", (collections,), total(nested.size), options={"legacySizeOfNull": ("true", "false")})


def _collections() -> Iterator[Proved]:
    array, mapping, integer = frozenset({"array"}), frozenset({"map"}), frozenset({"integer"})
    yield Proved(
        "ElementAt",
        (array, integer),
        intolerant(collections.element_at),
        options=_mode(*STRICT_OR_LAX),
        constants=frozenset({1}),
        when=collections.within_reach,
    )
    for function in ("ElementAt", "GetMapValue"):
        form = intolerant(collections.value_at)
        yield Proved(function, (mapping, TEXT), form, when=collections.has_such_keys)
    found = intolerant(always(collections.contains))
    yield Proved("ArrayContains", (array, TEXT | integer), found, when=collections.holds_such)
    yield Proved("MapKeys", (mapping,), intolerant(collections.map_keys))
    yield Proved("MapValues", (mapping,), intolerant(collections.map_values))
    yield Proved("MapEntries", (mapping,), intolerant(collections.map_entries))
    form, known = intolerant(collections.split), frozenset({1, 2})
    when = collections.splits_plainly
    yield Proved("StringSplit", (TEXT, TEXT, integer), form, constants=known, when=when)


def _names_fields(call: Call) -> bool:
    return _not_empty(call) and all(known(call, at) for at in range(0, len(call.arguments), 2))


def _rounding() -> Iterator[Proved]:
    double = frozenset({"double"})
    for function, plain, decimal in (
        ("Floor", rounding.floor, rounding.floor_decimal),
        ("Ceil", rounding.ceil, rounding.ceil_decimal),
    ):
        yield Proved(function, (double,), intolerant(plain), options=_mode(*STRICT_OR_LAX))
        yield Proved(function, (DECIMAL,), intolerant(decimal), options=_mode(*STRICT_OR_LAX))
        yield Proved(function, (frozenset({"long"}),), intolerant(always(nulls.itself)))
    yield Proved(
        "Round",
        (INTEGERS, frozenset({"integer"})),
        intolerant(always(rounding.whole)),
        constants=frozenset({1}),
        when=rounding.keeps_digits,
    )
    yield Proved(
        "Round",
        (DECIMAL, frozenset({"integer"})),
        intolerant(rounding.round_decimal),
        options=_mode(*STRICT_OR_LAX),
        constants=frozenset({1}),
        when=rounding.keeps_digits,
    )
    yield Proved("Sqrt", (double,), intolerant(always(pc.sqrt)))


TABLE: tuple[Proved, ...] = (
    *_comparisons(),
    *_nulls_and_conditionals(),
    *_arithmetic(),
    *_division(),
    *_casts(),
    *_casts_of_text_and_time(),
    *_strings(),
    *_patterns(),
    *_dates(),
    *_timestamps(),
    *_nested(),
    *_collections(),
    *_rounding(),
)
BY_FUNCTION: dict[str, tuple[Proved, ...]] = {
    function: tuple(entry for entry in TABLE if entry.function == function)
    for function in {entry.function for entry in TABLE}
}
