"""How Spark SQL writes each proved function, and the constants that it is tried with."""

import random
from dataclasses import dataclass

from property.expression_patterns import CHOSEN, REPLACEMENTS, random_patterns

Constants = tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True)
class Sql:
    """`{0}`, `{1}`... stand for the arguments, `{type}` for the type of the call."""

    text: str = ""
    try_text: str = ""
    java: bool = False
    """Spark SQL cannot write it; Catalyst's class is constructed."""
    named: bool = False
    """Its first argument is the name of a field."""
    typed: bool = False
    """It is also tried with each type that it may have."""
    independent: bool = False
    """What it does with an argument does not depend on the types of the others."""
    never_null: bool = False
    """It may only be given arguments that are not NULL."""
    alike_from: int = 0
    """Arguments from here on are of one type, if the function's are not all."""
    counts: tuple[int, ...] = ()
    """How many arguments, where any number will do."""
    member: bool = False
    """Its second argument is an element of the first."""
    constants: Constants = ()
    """Values for the constant arguments, one tuple for each try."""


def binary(operator: str, try_function: str = "") -> Sql:
    return Sql(f"({{0}} {operator} {{1}})", f"{try_function}({{0}}, {{1}})")


def function(name: str, arguments: int = 1, **more: object) -> Sql:
    return Sql(f"{name}({', '.join(f'{{{i}}}' for i in range(arguments))})", **more)  # type: ignore[arg-type]


PARTS: Constants = (("",), ("a",), ("é",), ("日",), ("%",), ("ab",), (" ",), ("\\",))

SIGNS: Constants = (("",), ("a",), ("a ",), ("日é",), ("%_",))
PADS: Constants = ((5, "x"), (0, "x"), (-1, "é"), (3, "日"), (2**31 - 1 - 2**31 + 8, " "))
DATE_UNITS = ("YEAR", "yyyy", "yy", "quarter", "Month", "mon", "mm", "week", "nothing")
CLOCK_UNITS = ("day", "dd", "hour", "minute", "second", "millisecond", "microsecond")
PATTERNS: Constants = tuple(
    (pattern,)
    for pattern in (
        "",
        "%",
        "_",
        "a%c",
        "%a_",
        "_b%",
        "%日_本%",
        "a.c",
        "\\%",
        "/%",
        "%/_%",
        "a\\\\b",
        "a//b",
        "\x00",
        "__",
        "é%%_",
    )
)
FORMATS: Constants = tuple(
    (pattern,)
    for pattern in (
        "yyyy-MM-dd",
        "HH:mm",
        "yyyyMMddHHmmss",
        "yyyy-MM-dd'T'HH:mm:ss.SSS",
        "yy/M/d H_m,s;S",
        "SSSSSSSSS SSSSSSS SS",
        "MMMM MMM DDD",
        "E EE EEE EEEE",
        "hh:mm a 'o é''clock' h",
        "hh:mm a 'o é clock' h",
        "''yyyy",
        "y yyy yyyyyy",
        "QQ",
        "G",
        "yyyy-MM-dd XXX",
        "[yyyy]",
        "'yyyy'",
    )
)
REGULAR: Constants = (*CHOSEN, *random_patterns(random.Random(20240229)))
REPLACED: Constants = tuple(
    (pattern, REPLACEMENTS[at % len(REPLACEMENTS)], 1) for at, (pattern, _) in enumerate(REGULAR)
)

# A function with different texts for different numbers of arguments has the number in its key.
SQL: dict[str, Sql] = {
    "EqualTo": binary("="),
    "LessThan": binary("<"),
    "LessThanOrEqual": binary("<="),
    "GreaterThan": binary(">"),
    "GreaterThanOrEqual": binary(">="),
    "EqualNullSafe": binary("<=>"),
    "And": binary("AND"),
    "Or": binary("OR"),
    "Not": Sql("(NOT {0})"),
    "In": Sql("({0} IN ({rest}))", counts=(2, 3)),
    "InSet": Sql(java=True, counts=(4,)),
    "IsNull": Sql("({0} IS NULL)"),
    "IsNotNull": Sql("({0} IS NOT NULL)"),
    "IsNaN": function("isnan"),
    "NaNvl": function("nanvl", 2),
    "Coalesce": Sql("coalesce({all})", counts=(1, 2, 3)),
    "AtLeastNNonNulls": Sql(java=True, independent=True, counts=(1, 2, 3)),
    "KnownNotNull": Sql(java=True, never_null=True),
    "KnownNullable": Sql(java=True),
    "KnownFloatingPointNormalized": Sql(java=True),
    "NormalizeNaNAndZero": Sql(java=True),
    "If": Sql("if({0}, {1}, {2})", alike_from=1),
    "CaseWhen": Sql("CASE WHEN {0} THEN {1} ELSE {2} END", alike_from=1, counts=(3,)),
    "Add": binary("+", "try_add"),
    "Subtract": binary("-", "try_subtract"),
    "Multiply": binary("*", "try_multiply"),
    "Divide": binary("/", "try_divide"),
    "IntegralDivide": binary("div"),
    "Remainder": binary("%"),
    "Pmod": function("pmod", 2),
    "UnaryMinus": Sql("(- {0})"),
    "Abs": function("abs"),
    "Cast": Sql("cast({0} AS {type})", "try_cast({0} AS {type})", typed=True),
    "Greatest": Sql("greatest({all})", counts=(2, 3)),
    "Least": Sql("least({all})", counts=(2, 3)),
    "BitwiseAnd": binary("&"),
    "BitwiseOr": binary("|"),
    "BitwiseXor": binary("^"),
    "BitwiseNot": Sql("(~ {0})"),
    "ShiftLeft": function("shiftleft", 2),
    "ShiftRight": function("shiftright", 2),
    "UnscaledValue": Sql(java=True),
    "MakeDecimal": Sql(java=True, typed=True),
    "PreciseTimestampConversion": Sql(java=True, typed=True),
    "UnixSeconds": function("unix_seconds"),
    "UnixMillis": function("unix_millis"),
    "UnixMicros": function("unix_micros"),
    "UnixDate": function("unix_date"),
    "DateFromUnixDate": function("date_from_unix_date"),
    "TruncDate": function("trunc", 2, constants=tuple((unit,) for unit in DATE_UNITS)),
    "TruncTimestamp": function(
        "date_trunc", 2, constants=tuple((unit,) for unit in (*DATE_UNITS, *CLOCK_UNITS))
    ),
    "StringTrim": function("trim"),
    "StringTrimLeft": function("ltrim"),
    "StringTrimRight": function("rtrim"),
    "StringTrim/2": Sql("trim(BOTH {1} FROM {0})", constants=SIGNS),
    "StringTrimLeft/2": Sql("trim(LEADING {1} FROM {0})", constants=SIGNS),
    "StringTrimRight/2": Sql("trim(TRAILING {1} FROM {0})", constants=SIGNS),
    "StringLPad": function("lpad", 3, constants=PADS),
    "StringRPad": function("rpad", 3, constants=PADS),
    "Like": Sql("({0} LIKE {1} ESCAPE '{escape}')", constants=PATTERNS),
    "RLike": Sql("({0} RLIKE {1})", constants=tuple((pattern,) for pattern, _ in REGULAR)),
    "RegExpExtract": function("regexp_extract", 3, constants=REGULAR),
    "StringTranslate": function(
        "translate",
        3,
        constants=(("", ""), ("ab", "b"), ("a日aé", "x😀y"), ("]-^%_", "12345"), ("😀", "a"), ("a", "\x00")),
    ),
    "SubstringIndex": function(
        "substring_index",
        3,
        constants=(
            *((delimiter, count) for delimiter in ("a", "日", "ab", "😀") for count in (1, -1, 2, -3, 1000)),
            ("a", 0),
            ("aa", 2),
            ("", 1),
            ("a", -(2**31)),
        ),
    ),
    "RegExpReplace": function("regexp_replace", 4, constants=REPLACED),
    "GetStructField": Sql("{0}.{field}"),
    "CreateNamedStruct": Sql("named_struct('p', {1})", counts=(2,), named=True),
    "CreateArray": Sql("array({all})", counts=(1, 2, 3)),
    "GetArrayItem": Sql("{0}[{1}]"),
    "Size": Sql(java=True),
    "ElementAt": function("element_at", 2, constants=((1,), (-1,), (2,), (-3,), (7,), (0,))),
    "GetMapValue": Sql("{0}[{1}]"),
    "ArrayContains": function("array_contains", 2, member=True),
    "MapKeys": function("map_keys"),
    "MapValues": function("map_values"),
    "MapEntries": function("map_entries"),
    "StringSplit": function(
        "split", 3, constants=tuple((part, -1) for part in ("a", "%", "é", "aa", " ", "日", "😀a"))
    ),
    "Floor": function("floor"),
    "Ceil": function("ceil"),
    "Round": function("round", 2, constants=((0,), (1,), (3,), (20,), (-1,))),
    "Sqrt": function("sqrt"),
    "Upper": function("upper"),
    "Lower": function("lower"),
    "Length": function("length"),
    "OctetLength": function("octet_length"),
    "BitLength": function("bit_length"),
    "Substring": function("substring", 3),
    "Concat": Sql("concat({all})", counts=(1, 2, 3)),
    "ConcatWs": Sql("concat_ws({all})", counts=(2, 3)),
    "StartsWith": function("startswith", 2, constants=PARTS),
    "EndsWith": function("endswith", 2, constants=PARTS),
    "Contains": function("contains", 2, constants=PARTS),
    "StringInstr": function("instr", 2, constants=PARTS),
    "StringLocate": function("locate", 3, constants=tuple((part, 1) for (part,) in PARTS)),
    "StringReplace": function(
        "replace",
        3,
        constants=(("a", "b"), ("", "x"), ("é", ""), ("aa", "日"), ("a", "a")),
    ),
    "Reverse": function("reverse"),
    "Year": function("year"),
    "Quarter": function("quarter"),
    "Month": function("month"),
    "DayOfMonth": function("dayofmonth"),
    "DayOfYear": function("dayofyear"),
    "DayOfWeek": function("dayofweek"),
    "WeekDay": function("weekday"),
    "WeekOfYear": function("weekofyear"),
    "LastDay": function("last_day"),
    "Hour": function("hour"),
    "Minute": function("minute"),
    "Second": function("second"),
    "DateAdd": function("date_add", 2),
    "DateSub": function("date_sub", 2),
    "DateDiff": function("datediff", 2),
    "AddMonths": function("add_months", 2),
    "FromUnixTime": function("from_unixtime", 2, constants=FORMATS[:8]),
    "DateFormatClass": function("date_format", 2, constants=FORMATS),
}
