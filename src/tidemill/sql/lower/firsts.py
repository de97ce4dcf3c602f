"""FIRST and LAST of several columns are of the same row, as where rows are dropped that have the same key."""

from collections.abc import Sequence
from dataclasses import replace

from tidemill.sql.relation import Function

NAMES = ("First", "Last")


def of_one_row(functions: Sequence[Function]) -> tuple[Function, ...]:
    """The functions; those that must choose the same row are handed all columns that any of them asks for."""
    return tuple(_with_others(one, functions) if _takes_nulls(one) else one for one in functions)


def _takes_nulls(function: Function) -> bool:
    """One that skips NULLs sees other rows than the next."""
    return function.name in NAMES and function.options.get("ignoreNulls") == "false"


def _with_others(function: Function, functions: Sequence[Function]) -> Function:
    others = [one for one in functions if _takes_nulls(one) and one.filter == function.filter]
    every = [one.arguments[0] for one in others]
    arguments = tuple(one for index, one in enumerate(every) if one not in every[:index])
    place = arguments.index(function.arguments[0])
    return replace(function, arguments=arguments, options={**function.options, "place": str(place)})
