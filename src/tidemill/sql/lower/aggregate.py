"""GROUP BY, global aggregates and DISTINCT."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tidemill.pipeline.errors import Refused
from tidemill.pipeline.plan import expression, node
from tidemill.pipeline.plan.expression import Call, Column, Literal, Tree
from tidemill.pipeline.plan.node import AggregateCall
from tidemill.sql.lower.builder import Builder, Rows
from tidemill.sql.lower.firsts import of_one_row
from tidemill.sql.lower.select import computed, only
from tidemill.sql.relation import Aggregate, AnyRelation, Function, Scalar

FUNCTIONS = {
    "Count": "count",
    "Sum": "sum",
    "Average": "avg",
    "Min": "min",
    "Max": "max",
    "MinBy": "min_by",
    "MaxBy": "max_by",
    "BitAndAgg": "bit_and",
    "BitOrAgg": "bit_or",
    "BitXorAgg": "bit_xor",
    "VariancePop": "var_pop",
    "VarianceSamp": "var_samp",
    "StddevPop": "stddev_pop",
    "StddevSamp": "stddev_samp",
    "Skewness": "skewness",
    "Kurtosis": "kurtosis",
    "CovPopulation": "covar_pop",
    "CovSample": "covar_samp",
    "Corr": "corr",
    "RegrReplacement": "regr_sxx, regr_syy",
    "RegrSXY": "regr_sxy",
    "RegrR2": "regr_r2",
    "RegrSlope": "regr_slope",
    "RegrIntercept": "regr_intercept",
    "First": "first",
    "Last": "last",
    "PivotFirst": "PIVOT",
    "CollectList": "collect_list",
    "CollectSet": "collect_set",
    "ListAgg": "listagg",
    "Percentile": "percentile",
    "PercentileDisc": "percentile_disc",
    "Mode": "mode",
    "Stateful": "your own",
    "Recomputed": "your own in pandas",
}
"""By Catalyst's name, as the user knows them."""
INSTEAD = {
    "ApproximatePercentile": "percentile, which is exact",
    "HistogramNumeric": "percentile, which is exact",
    "HyperLogLogPlusPlus": "count(DISTINCT …), which is exact",
    "ApproxTopK": "count(*) with GROUP BY, which is exact",
}
"""For functions that approximate, and whose approximation a row cannot be taken out of again."""
CONSTANTS = {"PivotFirst": 2, "ListAgg": 1, "Percentile": 1, "PercentileDisc": 1}
"""From which argument on constants are told apart from columns, for functions that ask for some."""


def lower_distinct(relation: AnyRelation, build: Builder) -> Rows | None:
    """Groups without a function: each distinct key once."""
    if not isinstance(relation, Aggregate) or relation.functions or not relation.keys:
        return None
    rows = build.lower(relation.child)
    keys = [_normalised(build, rows, key) for key in relation.keys]
    rows = only(build, rows, keys)
    order = _order(build, rows, len(keys))
    columns = tuple(Column(rows.columns[index].spark_type, index) for index in order)
    position = build.put(build.select(rows, None, columns, _pick(rows.schema, order)))
    position = build.exchanged(position, tuple(range(len(order))))
    schema = _pick(relation.group_schema, order)
    distinct = build.add(node.Distinct((position,), schema), build.spread(position))
    return _results(build, distinct, order, relation)


def lower_aggregate(relation: AnyRelation, build: Builder) -> Rows | None:
    """Keys and arguments as columns, added up before the exchange and after it, then the results."""
    if not isinstance(relation, Aggregate):
        return None
    arguments = Arguments(relation.keys)
    functions = tuple(arguments.call(one) for one in of_one_row(relation.functions))
    rows = only(build, build.lower(relation.child), arguments.scalars)
    order = _order(build, rows, len(relation.keys))
    position = build.put(rows)
    schema = build.nodes[position].spark_schema
    # What is spread by the keys before is so after, where the keys come first. The group of all rows is told
    # of by every worker, so that it is there without rows: one of them must collect that.
    spread = [tuple(range(len(order)))] if order and order in build.spread(position) else []
    combine = build.add(node.Combine((position,), schema, order, functions), spread)
    exchanged = build.exchanged(combine, tuple(range(len(order))))
    values = range(len(order), len(order) + len(functions))
    group_schema = _pick(relation.group_schema, (*order, *values))
    aggregate = node.Aggregate((exchanged,), group_schema, order, functions, schema)
    return _results(build, build.add(aggregate, build.spread(exchanged)), (*order, *values), relation)


class Arguments:
    """The columns that an aggregation reads: its keys first, then what its functions ask for, each once."""

    def __init__(self, keys: Sequence[Scalar]) -> None:
        self.scalars = list(keys)

    def call(self, function: Function) -> AggregateCall:
        """The function with its argument and filter as columns. Raises `Refused` if it is not one of ours."""
        if function.name not in FUNCTIONS:
            raise _refusal(function)
        if function.name == "Count":
            return self._count(function)
        count = CONSTANTS.get(function.name, len(function.arguments))
        places = [
            self._argument(function, one)
            for index, one in enumerate(function.arguments)
            if index < count or not isinstance(one.tree, Literal)
        ]
        constants = [one.tree for one in function.arguments[count:] if isinstance(one.tree, Literal)]
        return AggregateCall(
            function.name,
            places[0] if places else None,
            function.spark_type,
            self._column(function.filter) if function.filter else None,
            function.options,
            (*places[1:], *constants) or msgspec.UNSET,
        )

    def _argument(self, function: Function, argument: Scalar) -> int:
        return self._column(_only_where(function.filter, argument) if function.filter else argument)

    def _count(self, function: Function) -> AggregateCall:
        """Of rows where no argument is NULL; an argument that never is needs no look."""
        looked_at = [one for one in function.arguments if not _is_constant(one.tree)]
        condition = function.filter
        argument = None
        if len(looked_at) == 1 and condition is None:
            argument = self._column(looked_at[0])
        else:
            for one in looked_at:
                condition = _and_present(condition, one)
        place = self._column(condition) if condition else None
        return AggregateCall(function.name, argument, function.spark_type, place, function.options)

    def _column(self, scalar: Scalar) -> int:
        if scalar not in self.scalars:
            self.scalars.append(scalar)
        return self.scalars.index(scalar)


def _refusal(function: Function) -> Refused:
    called, place = function.written or function.text, function.place
    if function.name in INSTEAD:
        return Refused(
            f"{called} is an approximation, which cannot take back a row that is deleted: "
            f"use {INSTEAD[function.name]}",
            place=place,
        )
    known = ", ".join(FUNCTIONS.values())
    return Refused(
        f"{called} is not supported yet in a view: the aggregate functions are {known}", place=place
    )


def _is_constant(tree: Tree) -> bool:
    return isinstance(tree, Literal) and tree.value.is_valid


def _only_where(condition: Scalar, argument: Scalar) -> Scalar:
    """The argument, evaluated only where the condition is true, as Spark does; it may raise elsewhere."""
    if not isinstance(argument.tree, Call):
        return argument
    kind = argument.tree.spark_type
    nothing = msgspec.structs.replace(expression.literal(None, argument.tree.type), text="NULL")
    tree = Call(kind, "If", (condition.tree, argument.tree, nothing))
    why = condition.unproved or argument.unproved
    return Scalar(tree, why, lambda: f"IF({condition.sql}, {argument.sql}, NULL)")


def _and_present(condition: Scalar | None, argument: Scalar) -> Scalar:
    tree: Tree = Call("boolean", "IsNotNull", (argument.tree,))
    if condition is None:
        return Scalar(tree, argument.unproved, lambda: f"({argument.sql}) IS NOT NULL")
    both = Call("boolean", "And", (condition.tree, tree))
    why = condition.unproved or argument.unproved
    return Scalar(both, why, lambda: f"({condition.sql}) AND ({argument.sql}) IS NOT NULL")


def _normalised(build: Builder, rows: Rows, key: Scalar) -> Scalar:
    """The key as Spark shows it, with 0.0 for -0.0 and one NaN. (An aggregation does so by itself.)"""
    if key.tree.spark_type not in ("float", "double") or key.unproved:
        return key
    held = rows.columns[key.tree.index] if isinstance(key.tree, Column) else key.tree
    if isinstance(held, Column) and isinstance(build.nodes[rows.base], node.Source):
        return key  # so it was appended
    return Scalar(Call(key.tree.spark_type, "NormalizeNaNAndZero", (key.tree,)), None, key.text)


def _order(build: Builder, rows: Rows, count: int) -> tuple[int, ...]:
    """In which order to take the first columns as a key, so that the rows need not be exchanged."""
    plain = tuple(range(count))
    spread = sorted(build.spread_of(rows))
    return next((key for key in spread if sorted(key) == list(plain)), plain)


def _pick(schema: Any, order: Sequence[int]) -> Any:
    return {"type": "struct", "fields": [schema["fields"][index] for index in order]}


def _results(build: Builder, position: int, order: tuple[int, ...], relation: Aggregate) -> Rows:
    """The results over a node that holds the groups' columns in that order."""
    held = build.all_of(position)
    columns = tuple(held.columns[order.index(index)] for index in range(len(order)))
    groups = Rows(position, None, columns, relation.group_schema)
    return computed(build, groups, relation.results, relation.schema)
