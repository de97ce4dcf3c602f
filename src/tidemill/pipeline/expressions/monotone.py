"""Expressions that never go down when the one column they read goes up."""

from tidemill.pipeline.plan.expression import Call, Column, Literal, Tree, columns_of, shift

STEADY = {
    "PreciseTimestampConversion": 0,
    "TruncTimestamp": 1,
    "TruncDate": 0,
    "Year": 0,
    "UnixSeconds": 0,
    "UnixMillis": 0,
    "UnixMicros": 0,
    "UnixDate": 0,
    "DateFromUnixDate": 0,
    "LastDay": 0,
    "DateAdd": 0,
    "DateSub": 0,
    "AddMonths": 0,
}
"""By function, the argument with which it grows; all others must be constants."""
TIMES = ("timestamp", "timestamp_ntz", "date")


def grows_with(tree: Tree) -> tuple[int, Tree] | None:
    """The column with which the expression grows, and the expression over that column alone; None if it may
    not. Exact for rows without overflow."""
    columns = columns_of(tree)
    if len(columns) != 1 or not _grows(tree):
        return None
    [index] = columns
    return index, shift(tree, {index: 0})


def _grows(tree: Tree) -> bool:
    match tree:
        case Column():
            return True
        case Call(function="Cast", arguments=(inner,), spark_type=kind):
            return kind in TIMES and inner.spark_type in TIMES and _grows(inner)
        case Call(function="Add", arguments=(one, other)):
            return (_is_constant(other) and _grows(one)) or (_is_constant(one) and _grows(other))
        case Call(function="Subtract", arguments=(one, other)):
            return _grows(one) and (_is_constant(other) or _is_excess(one, other))
        case Call(function=function, arguments=arguments) if function in STEADY:
            at = STEADY[function]
            others = [argument for place, argument in enumerate(arguments) if place != at]
            return _grows(arguments[at]) and all(map(_is_constant, others))
    return False


def _is_constant(tree: Tree) -> bool:
    return isinstance(tree, Literal)


def _is_excess(number: Tree, excess: Tree) -> bool:
    """Whether it is by what a number exceeds a multiple of a length (from some start), as window() has it."""
    match excess:
        case Call(
            function="CaseWhen",
            arguments=(
                Call(function="LessThan", arguments=(rest, zero)),
                Call(function="Add", arguments=(again, length)),
                otherwise,
            ),
        ) if rest == again == otherwise and _value(zero) == 0:
            match rest:
                case Call(
                    function="Remainder",
                    arguments=(Call(function="Subtract", arguments=(inner, start)), divisor),
                ):
                    positive = (_value(length) or 0) > 0
                    return inner == number and _is_constant(start) and divisor == length and positive
    return False


def _value(tree: Tree) -> int | None:
    return tree.value.as_py() if isinstance(tree, Literal) else None
