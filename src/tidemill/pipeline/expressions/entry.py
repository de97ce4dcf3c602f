"""What an entry in the table of proved functions says, and the names of types in it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from tidemill.pipeline import types
from tidemill.pipeline.expressions.evaluation import Form
from tidemill.pipeline.plan.expression import Call, Literal

Kinds = frozenset[str]
"""Types by their name in Spark's JSON, without what follows a parenthesis: `decimal`, `array`."""

INTEGERS: Kinds = frozenset({"byte", "short", "integer", "long"})
FLOATS: Kinds = frozenset({"float", "double"})
DECIMAL: Kinds = frozenset({"decimal"})
TEXT: Kinds = frozenset({"string"})
BYTES: Kinds = frozenset({"string", "binary"})
BOOLEAN: Kinds = frozenset({"boolean"})
DATE: Kinds = frozenset({"date"})
TIMES: Kinds = frozenset({"timestamp", "timestamp_ntz"})
ZONED: Kinds = frozenset({"timestamp"})
PLAIN: Kinds = INTEGERS | FLOATS | DECIMAL | BYTES | BOOLEAN | DATE | TIMES
ANY: Kinds = PLAIN | {"array", "struct", "map"}

MODES = ("ANSI", "LEGACY", "TRY")
STRICT_OR_LAX = ("ANSI", "LEGACY")
ORDINALS = tuple(map(str, range(1000)))
UTC = ("UTC", "Etc/UTC", "GMT", "Z")


def kind_name(kind: pa.DataType) -> str:
    json = types.to_spark(kind)
    return str(json["type"]) if isinstance(json, dict) else json.partition("(")[0]


def alike(kinds: Iterable[pa.DataType]) -> bool:
    """Whether they are one type, but for the nullability of what they contain."""
    return len({types.sql_name(kind) for kind in kinds}) <= 1


@dataclass(frozen=True, slots=True)
class Proved:
    """A function, for some types of its arguments."""

    function: str
    arguments: tuple[Kinds, ...]
    form: Form
    to: Kinds = ANY
    """The types that the call may have; matters for Cast."""
    options: Mapping[str, tuple[str, ...]] | None = None
    same: bool = False
    """All arguments are of one type."""
    repeats: int = 0
    """How many of the last arguments may be repeated, or be missing."""
    constants: frozenset[int] = frozenset()
    """Which arguments must be constants that are not NULL."""
    when: Callable[[Call], bool] | None = None
    """What else must hold."""

    def claims(self, call: Call) -> bool:
        kinds = self.expected(len(call.arguments))
        if kinds is None or kind_name(call.type) not in self.to:
            return False
        given = [argument.type for argument in call.arguments]
        return (
            all(kind_name(kind) in expected for kind, expected in zip(given, kinds, strict=True))
            and (not self.same or alike(given))
            and all(call.options.get(name) in allowed for name, allowed in (self.options or {}).items())
            and all(known(call, position) for position in self.constants)
            and (self.when is None or self.when(call))
        )

    def expected(self, count: int) -> tuple[Kinds, ...] | None:
        """The types of so many arguments; None if there cannot be so many."""
        if not self.repeats:
            return self.arguments if count == len(self.arguments) else None
        fixed, tail = self.arguments[: -self.repeats], self.arguments[-self.repeats :]
        if count < len(fixed) or (count - len(fixed)) % self.repeats:
            return None
        return fixed + tail * ((count - len(fixed)) // self.repeats)


def known(call: Call, position: int) -> bool:
    argument = call.arguments[position] if position < len(call.arguments) else None
    return isinstance(argument, Literal) and argument.value.is_valid
