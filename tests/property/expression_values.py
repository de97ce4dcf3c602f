"""Values on which expressions are compared with Spark: for each type the odd ones, then random ones.

Each type has three columns. In the first `ODD * ODD` rows the first two hold every pair of odd values; the
third is shuffled. The last row is all NULL. All else is random, from a fixed seed.
"""

import math
import random
import struct
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa

from property.expression_patterns import random_text
from tidemill.pipeline import types
from tidemill.pipeline.plan import expression as ex

ODD = 16
ROWS = ODD * ODD + 144
SLOTS = ("a", "b", "c")

DECIMALS = tuple(pa.decimal128(p, s) for p, s in ((5, 5), (9, 2), (20, 10), (38, 0), (38, 18), (38, 37)))
PLAIN = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.large_string(),
    "binary": pa.large_binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
NESTED = {
    "array": tuple(pa.large_list(pa.field("element", kind)) for kind in (pa.int32(), pa.large_string())),
    "struct": (pa.struct([pa.field("x", pa.int64()), pa.field("y", pa.large_string())]),),
    "map": (pa.map_(pa.large_string(), pa.int32()),),
}
KINDS: dict[str, tuple[pa.DataType, ...]] = {
    **{name: (kind,) for name, kind in PLAIN.items()},
    "decimal": DECIMALS,
    **NESTED,
}
TYPES = tuple(kind for kinds in KINDS.values() for kind in kinds)

TEXTS = [
    "", "a", "abc", "Abc", " abc ", "\t x\n", "é", "日本語", "a日b本c", "😀a", "ß", "%", "_",
    "a\\b", "aaa", "\x00",
]  # fmt: skip
# fmt: off
FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, math.nan, math.inf, -math.inf, 2147483648.0, -9223372036854775808.0,
]
DAYS = [
    0, -1, 1, 59, 11016, 19782, -719162, -719528, 2932896, 2**31 - 1, -(2**31), 18261, -25567, 364, 10**7,
]
MICROSECONDS = [
    0, -1, 1, 999_999, 1709164800_000_000, 1709251199_999_999, -62135596800_000_000,
    253402300799_999_999, 2**63 - 1, -(2**63), -62167219200_000_001, 86_400_000_000,
    -86_400_000_001, 1583020800_000_000, 3_600_000_000,
]
# fmt: on


BLANKS = ["", " ", "\t", "\n", "\x00", "\x1f", "\x7f", "\u00a0", "\u3000"]
# fmt: off
READABLE_TEXTS = [
    None, "", " ", "0", "-0", "+0", "00", "+", "-", ".", "+.", "1.", ".5", "-.5", "1.9", "-1.9",
    "1.x", "1e3", "0x10", "127", "128", "-128", "-129", "32767", "32768", "2147483647",
    "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "-9223372036854775809", "1" * 40, "0" * 60 + "7", "-" + "0" * 60 + "7",
    "\u0661", "1 2", "--1", "+-1", "1-", "\uff11", "t", "T", "true", "TRUE", "tRuE", "y", "Y",
    "yes", "f", "F", "false", "n", "no", "NO", "on", "off", "tr", "truee", " true\t", "1\x00",
    "\x001", "2020", "2020-1", "2020-01", "2020-1-1", "2020-01-01", "2020-12-31", "2020-02-29",
    "2019-02-29", "2020-13-01", "2020-00-01", "2020-01-00", "2020-1-32", "2020-01-01T",
    "2020-01-01 ", "2020-01-01 12:00:00", "2020-01-01Tx\ny", "2020-01-01x", "2020-", "2020-01-",
    "202", "20200", "0000-01-01", "0001-01-01", "9999-12-31", "10000-01-01", "+2020-01-01",
    "-2020-01-01", "-0001-01-01", "+10000-01-01", "9999999-01-01", "99999999-01-01",
    "5881580-07-11", "5881580-07-12", "-5877641-06-23", "-5877641-06-22", "1582-10-10",
    "1900-02-29", "2000-02-29", "2020-001-01", "2020-01-001", "2020/01/01", "2020-01-01T12:34",
    "日", "2020-01-0\uff11",
]
# fmt: on
READABLE = "readable"
LETTERS = "letters"
SIGMAS = "sigmas"
LINES = "lines"


def column_name(kind: pa.DataType, slot: int) -> str:
    return f"c{TYPES.index(kind)}{SLOTS[slot]}"


def table() -> pa.Table:
    """All columns, of `ROWS` rows and the one that is all NULL."""
    rng = random.Random(20240229)
    columns = {}
    for kind in TYPES:
        odd = odd_values(kind, rng)
        shuffled = [rng.choice(odd) for _ in range(ODD * ODD)]
        slots = [odd[i % ODD] for i in range(ODD * ODD)], [odd[i // ODD] for i in range(ODD * ODD)], shuffled
        for slot, values in enumerate(slots):
            more = [random_value(kind, rng) for _ in range(ROWS - ODD * ODD)]
            columns[column_name(kind, slot)] = to_array([*values, *more, None], kind)
    texts = [readable_text(row, rng) for row in range(ROWS)]
    columns[READABLE] = pa.array([*texts, None], pa.large_string())
    columns[LETTERS] = pa.array([*every_code_point(), None], pa.large_string())
    columns[SIGMAS] = pa.array([*map(around_sigmas, every_code_point(CASED)), None], pa.large_string())
    columns[LINES] = pa.array([*(random_text(rng) for _ in range(ROWS)), None], pa.large_string())
    return pa.table(columns)


CASED = (*range(0x20000), *range(0xE0000, 0xE0200))
"""Beyond these no code point has to do with case."""


def around_sigmas(signs: str) -> str:
    """Each sign after and before a sigma that may be final."""
    return "".join(f" {sign}Σ AΣ{sign}A" for sign in signs)


def every_code_point(among: Sequence[int] = range(0x110000)) -> list[str]:
    """All there are, cut in `ROWS` rows."""
    codes = [code for code in among if not 0xD800 <= code < 0xE000]
    size = len(codes) // ROWS + 1
    return ["".join(map(chr, codes[row * size : (row + 1) * size])) for row in range(ROWS)]


def readable_text(row: int, rng: random.Random) -> str | None:
    """Text that some type can be read from, or nearly."""
    if row < len(READABLE_TEXTS):
        return READABLE_TEXTS[row]
    match rng.randint(0, 5):
        case 0:
            return f"{rng.randint(-300, 300)}"
        case 1:
            return (
                f"{rng.choice(BLANKS)}{rng.choice(['', '+', '-'])}{rng.randint(0, 2**64)}{rng.choice(BLANKS)}"
            )
        case 2:
            return f"{rng.randint(0, 12000):04}-{rng.randint(0, 13)}-{rng.randint(0, 32):02}"
        case 3:
            return f"{rng.randint(-99999, 99999)}.{rng.randint(0, 999)}"
        case 4:
            return f"{rng.randint(1900, 2100)}-02-{rng.randint(27, 31)}{rng.choice(['', 'T', ' x', 'x'])}"
        case _:
            return "".join(rng.choice("0123456789+-. eET:") for _ in range(rng.randint(0, 6)))


def to_array(values: list[object], kind: pa.DataType) -> pa.Array:
    """Dates and timestamps are given as numbers, as Python's end with the year 9999."""
    if pa.types.is_date(kind):
        return pa.array(values, pa.int32()).view(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).view(kind)
    return pa.array(values, kind)


def odd_values(kind: pa.DataType, rng: random.Random) -> list[object]:
    """`ODD` values, NULL among them."""
    values = [None, *_odd(kind)][:ODD]
    return values + [random_value(kind, rng) for _ in range(ODD - len(values))]


def _odd(kind: pa.DataType) -> list[object]:
    if pa.types.is_boolean(kind):
        return [True, False] * 7
    if pa.types.is_integer(kind):
        top = 2 ** (kind.bit_width - 1) - 1
        return [0, 1, -1, 2, -2, 3, -3, 7, 10, top, -top, -top - 1, top - 1, top // 2, -(top // 2) - 1]
    if pa.types.is_floating(kind):
        big, small = (
            (3.4028234663852886e38, 1e-45) if kind.bit_width == 32 else (1.7976931348623157e308, 5e-324)
        )
        return [*FLOATS, big, -big, small]
    if pa.types.is_decimal(kind):
        top = 10**kind.precision - 1
        one = 10**kind.scale
        units = [0, 1, -1, 5, -5, top, -top, top - 1, top // 2, (top + 1) // 10, one, -one, 3 * one // 2]
        return [decimal(unit, kind) for unit in units if abs(unit) <= top]
    if pa.types.is_date(kind):
        return list(DAYS)
    if pa.types.is_timestamp(kind):
        return list(MICROSECONDS)
    if kind == pa.large_string():
        return list(TEXTS)
    if kind == pa.large_binary():
        return [b"", b"a", b"\x00", b"\xff\xfe", b"abc"]
    return _odd_nested(kind)


def _odd_nested(kind: pa.DataType) -> list[object]:
    if pa.types.is_struct(kind):
        return [{"x": 1, "y": "a"}, {"x": None, "y": None}, {"x": 2**63 - 1, "y": ""}]
    if pa.types.is_map(kind):
        return [[], [("a", 1)], [("a", None), ("", -1)]]
    return [[], [None], [1, 2, None]] if kind.value_type == pa.int32() else [[], [None], ["", "é"]]


def decimal(units: int, kind: pa.DataType) -> Decimal:
    return Decimal((units < 0, tuple(map(int, str(abs(units)))), -kind.scale))


def random_value(kind: pa.DataType, rng: random.Random) -> object:
    if rng.random() < 0.05:
        return None
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        bits = rng.randint(1, kind.bit_width - 1)
        return rng.randint(-(2**bits), 2**bits - 1)
    if pa.types.is_floating(kind):
        return _random_float(kind, rng)
    if pa.types.is_decimal(kind):
        units = rng.randint(-(10**kind.precision) + 1, 10**kind.precision - 1)
        return decimal(units // 10 ** rng.randint(0, kind.precision - 1), kind)
    if kind == pa.large_string():
        return "".join(rng.choice("aab%_é日😀 A1.") for _ in range(rng.randint(0, 9)))
    if kind == pa.large_binary():
        return rng.randbytes(rng.randint(0, 6))
    return rng.choice(_odd_nested(kind))


def _random_float(kind: pa.DataType, rng: random.Random) -> float:
    if rng.random() < 0.3:
        return float(rng.randint(-20, 20)) / 4
    if kind.bit_width == 32:
        return float(struct.unpack("<f", rng.randbytes(4))[0])
    return float(struct.unpack("<d", rng.randbytes(8))[0])


def odd_literal(kind: pa.DataType, number: int) -> ex.Literal:
    """One of the odd values that are not NULL."""
    values = [value for value in _odd(kind)[: ODD - 1] if value is not None]
    return literal_of(to_array([values[number % len(values)]], kind))


def literal_of(value: pa.Array) -> ex.Literal:
    """The only value of an array, which Python itself might not be able to hold."""
    batch = pa.record_batch([value], names=["value"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return ex.Literal(types.to_spark(value.type), sink.getvalue().to_pybytes(), "a constant")


def sql_literal(literal: ex.Literal) -> str:
    """An expression of constants that Spark folds to that literal."""
    kind, value = literal.type, literal.value
    if kind == pa.large_string():
        return f"decode(unhex('{value.as_py().encode().hex()}'), 'utf-8')"
    if kind == pa.large_binary():
        return f"X'{value.as_py().hex()}'"
    if pa.types.is_date(kind):
        return f"date_from_unix_date({value.cast(pa.int32())})"
    if pa.types.is_timestamp(kind):
        return (
            f"cast(timestamp_micros({number_text(value.cast(pa.int64()).as_py())}) AS {types.sql_name(kind)})"
        )
    return f"cast('{value.as_py()}' AS {types.sql_name(kind)})"


def number_text(value: int) -> str:
    return f"cast('{value}' AS bigint)"


NAMES = table().column_names
