"""Aggregates against plain Python with fractions: exact for every type, whatever came and went before."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.pipeline import types
from tidemill.pipeline.errors import Refused, StepAborted
from tidemill.pipeline.exchange import Layout
from tidemill.pipeline.operators.aggregate import AggregateOperator, CombineOperator
from tidemill.pipeline.operators.operator import Access, Moment
from tidemill.pipeline.plan.node import Aggregate, AggregateCall, Combine, Node
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.testing import Bag, Bench, ModelSpine, Rows, bag, check, feed, rows_of, spark
from tidemill.pipeline.zset import ZSet, concat
from unit.pipeline.operators.aggregation import COLUMNS, HUGE, PLACE, SCHEMA, aggregation, call, model, zset

NUMBERS = ["double", "float", "byte", "int", "long", "small", "medium", "large"]
CALLS = st.one_of(
    st.builds(
        call, st.just("Count"), st.none() | st.sampled_from(list(COLUMNS)), st.none() | st.just("flag")
    ),
    st.builds(
        call,
        st.sampled_from(["Sum", "Average"]),
        st.sampled_from(NUMBERS),
        st.none() | st.just("flag"),
        st.sampled_from(["TRY", "LEGACY"]),
    ),
    st.builds(
        call, st.sampled_from(["Min", "Max"]), st.sampled_from(list(COLUMNS)), st.none() | st.just("flag")
    ),
    st.builds(
        call,
        st.sampled_from(["MinBy", "MaxBy"]),
        st.sampled_from(list(COLUMNS)),
        st.none() | st.just("flag"),
        st.just("TRY"),
        st.sampled_from(["int", "double", "text", "list"]),
    ),
)
ACCESS = Access((), (), fresh=False, last_round=True, moment=Moment(1, 0.0))
KEYS = st.sampled_from([[], ["text"], ["double"], ["text", "flag"], ["list"], ["large", "float"]])


@st.composite
def steps(draw: st.DrawFn, used: Sequence[str]) -> list[tuple[ZSet]]:
    """Changes over few rows, so that many meet and cancel out; columns that are not used are NULL."""
    row = st.fixed_dictionaries({name: COLUMNS[name][1] | st.none() for name in used})
    pool = draw(st.lists(row, min_size=1, max_size=6))
    weight = st.sampled_from([1, 1, 1, -1, -1, 2, -2, 5, 1000])
    change = st.lists(st.tuples(st.sampled_from(pool), weight), max_size=8)
    drawn = draw(st.lists(change, min_size=1, max_size=5))
    return [(zset([row for row, _ in pairs], [weight for _, weight in pairs]),) for pairs in drawn]


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_values_are_those_of_the_bag_of_rows(
    open_spine: Callable[[StateSpec], Any], data: st.DataObject
) -> None:
    keys, calls = data.draw(KEYS), data.draw(st.lists(CALLS, max_size=4))
    used = {"flag", *keys} | {SCHEMA.names[column] for each in calls for column in each.columns}
    changes = data.draw(steps(sorted(used)))

    check(aggregation(keys, calls), changes, model(keys, calls), late=2, open_spine=open_spine)


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_spread_over_pipeline_workers_the_answer_is_the_same(data: st.DataObject) -> None:
    keys, calls = data.draw(KEYS), [call("Count"), call("Sum", "double"), call("Max", "int")]
    changes = data.draw(steps(["int", *keys]))
    layout, (*_, combine, aggregate) = Layout(3), aggregation(keys, calls)
    combiners = [CombineOperator(combine, []) for _ in range(3)]
    owners = [AggregateOperator(aggregate, []) for _ in range(3)]
    spines = [[ModelSpine(spec) for spec in owner.states()] for owner in owners]
    output: Rows = []
    for number, (change,) in enumerate(changes):
        flows = [
            combiner.step([(change.take(np.arange(start, len(change), 3)),)], ACCESS)
            for start, combiner in enumerate(combiners)
        ]
        for worker, owner in enumerate(owners):
            access = replace(ACCESS, spines=spines[worker], fresh=number == 0)
            arrived = tuple(
                concat([mine(layout, worker, flow[at], len(keys)) for flow in flows], port.schema, port.width)
                for at, port in enumerate(combiners[0].ports())
            )
            output += rows_of(owner.step([arrived], access)[0])
            for spine in spines[worker]:
                spine.next_round()

    assert bag(output) == model(keys, calls)([pair for (change,) in changes for pair in rows_of(change)])


def mine(layout: Layout, worker: int, rows: ZSet, keys: int) -> ZSet:
    """What an exchange by the leading columns brings to a pipeline worker."""
    return dict(layout.split(rows, range(keys))).get(worker, rows.slice(0, 0))


# Single traits.


def run(nodes: Sequence[Node], *changes: ZSet) -> Bag:
    """The output after these steps."""
    bench = Bench(nodes)
    return bag(pair for change in changes for pair in rows_of(bench.step([change])))


def test_a_global_aggregate_has_a_row_before_anything_went_in() -> None:
    nodes = aggregation(
        [], [call("Count"), call("Sum", "int"), call("Max", "text"), call("Average", "double")]
    )

    assert run(nodes, zset([])) == Counter({(0, None, None, None): 1})
    assert run(nodes, zset([]), zset([{"int": 7}]), zset([{"int": 7}], [-1])) == run(nodes, zset([]))


def test_keys_are_shown_as_spark_does() -> None:
    bench = Bench(aggregation(["double", "list"], [call("Count")]))
    odd = np.array([0x7FF8_0000_0000_0001], np.uint64).view(np.float64)[0]
    output = bench.step([zset([{"double": -0.0, "list": [-0.0, None]}, {"double": odd, "list": [odd]}])])
    floats = np.concatenate(
        [output.rows.column(0).to_numpy(), output.rows.column(1).flatten().drop_null().to_numpy()]
    )

    assert set(floats.view(np.uint64)) == {0, int(np.array(np.nan).view(np.uint64))}


def test_what_cancels_leaves_no_trace_in_any_state() -> None:
    calls = [call("Sum", "double"), call("Average", "large"), call("Max", "text"), call("Sum", "long")]
    rows = [{"text": "a", "double": 0.1, "large": HUGE, "long": -(2**63)}, {"text": "a", "double": math.nan}]
    bench = Bench(aggregation(["text"], calls))
    bench.step([zset(rows)])
    bench.step([zset(rows, [-1, -1])])

    assert [list(spine.scan()) for spine in bench.spines[-1]] == [[]] * 3


def test_functions_over_the_same_column_share_what_is_kept() -> None:
    calls = [call(name, "double") for name in ("Count", "Sum", "Average", "Min", "Max")]
    states = AggregateOperator(aggregation(["text"], calls)[-1], []).states()

    assert [spec.width for spec in states] == [2, 4, None]


def test_all_exact_sums_of_a_node_are_kept_in_one_state() -> None:
    calls = [call("Sum", "double"), call("Average", "float"), call("Sum", "double", "flag")]
    states = AggregateOperator(aggregation(["text"], calls)[-1], []).states()

    assert [spec.width for spec in states] == [4, 12]


def test_the_change_is_combined_before_it_travels() -> None:
    operator = CombineOperator(aggregation(["text"], [call("Sum", "double"), call("Min", "int")])[2], [])
    rows = [{"text": "a", "double": 0.5, "int": 1}] * 1000 + [
        {"text": "b", "int": 2},
        {"text": "b", "int": 2},
    ]
    totals, limbs, values = operator.step([(zset(rows, [1] * 1001 + [-1]),)], ACCESS)

    assert sorted(rows_of_counters(totals)) == [("a", 1000, 1000), ("b", 0, 0)]
    assert len(limbs) == 1
    assert rows_of(values) == [(("a", 1), 1000)]


def rows_of_counters(totals: ZSet) -> list[tuple[Any, ...]]:
    return [
        (*row.values(), *weights)
        for row, weights in zip(totals.rows.to_pylist(), totals.weights.tolist(), strict=True)
    ]


@pytest.mark.parametrize(
    ("function", "column", "most", "condition"),
    [
        ("Sum", "long", 2**63 - 1, "ARITHMETIC_OVERFLOW"),
        ("Sum", "large", HUGE, "NUMERIC_VALUE_OUT_OF_RANGE"),
        ("Average", "large", HUGE, "NUMERIC_VALUE_OUT_OF_RANGE"),
    ],
)
def test_what_does_not_fit_aborts_the_step_in_ansi_mode(
    function: str, column: str, most: Any, condition: str
) -> None:
    nodes = aggregation([], [call(function, column, mode="ANSI")])

    with pytest.raises(StepAborted, match=condition):
        run(nodes, zset([{column: most}, {column: most}]))


def test_a_sum_may_overflow_on_the_way() -> None:
    rows = [{"long": 2**63 - 1, "large": HUGE}] * 3
    nodes = aggregation([], [call("Sum", "long", mode="ANSI"), call("Sum", "large", mode="ANSI")])

    assert run(nodes, zset(rows, [1, 1, -1])) == Counter({(2**63 - 1, HUGE): 1})


def test_counters_that_do_not_fit_abort_the_step() -> None:
    with pytest.raises(StepAborted, match="WEIGHT_OVERFLOW"):
        run(aggregation([], [call("Count")]), zset([{}, {}], [2**62, 2**62]))
    with pytest.raises(StepAborted, match="WEIGHT_OVERFLOW"):
        run(aggregation([], [call("Sum", "double")]), zset([{"double": 0.1}], [2**40]))


def test_rounds_of_a_step_that_was_given_up_are_forgotten() -> None:
    operator = AggregateOperator(aggregation(["text"], [call("Count")])[-1], [])
    combine = CombineOperator(aggregation(["text"], [call("Count")])[2], [])
    for last in (False, True):
        spine = ModelSpine(operator.states()[0])
        access = replace(ACCESS, spines=(spine,), last_round=last)
        output = operator.step([combine.step([(zset([{"text": str(last)}]),)], access)], access)

    assert rows_of(output[0]) == [(("True", 1), 1)]


def test_groups_of_very_different_size_are_added_up_alike() -> None:
    rng = np.random.default_rng(5)
    keys = np.where(rng.random(20_000) < 0.9, 0, rng.integers(0, 3000, 20_000))
    floats = rng.normal(0, 1, 20_000) * 10.0 ** rng.integers(-300, 300, 20_000)
    rows = [{"text": str(key), "double": one} for key, one in zip(keys, floats.tolist(), strict=True)]
    found = run(aggregation(["text"], [call("Sum", "double")]), zset(rows[:15_000]), zset(rows[15_000:]))
    groups = defaultdict(list)
    for row in rows:
        groups[row["text"]].append(row["double"])

    assert found == Counter((key, math.fsum(members)) for key, members in groups.items())


@pytest.mark.parametrize(
    ("function", "column"), [("Sum", "flag"), ("Average", "text"), ("StddevSamp", "int")]
)
def test_what_cannot_be_kept_is_refused_by_name(function: str, column: str) -> None:
    node = aggregation([], [AggregateCall(function, PLACE[column], "double")])[2]

    with pytest.raises(Refused, match=f"{function} over {types.sql_name(SCHEMA.field(column).type)}"):
        CombineOperator(node, [])


@pytest.mark.parametrize("function", ["MinBy", "MaxBy", "First", "Min"])
def test_maps_have_no_order_but_can_be_chosen(function: str) -> None:
    schema = pa.schema([("map", pa.map_(pa.int32(), pa.int32())), ("by", pa.int32())])
    further = (1,) if function.endswith("By") else msgspec.UNSET
    calls = (AggregateCall(function, 0, types.to_spark(schema.field(0).type), further=further),)
    result = spark(pa.schema([schema.field(0)]))
    nodes = [
        feed(schema),
        Combine((0,), spark(schema), (), calls),
        Aggregate((1,), result, (), calls, spark(schema)),
    ]
    rows = [
        ZSet.of(pa.RecordBatch.from_pylist([{"map": [(number, 1)], "by": 5}], schema), weight)
        for number, weight in ((1, 1), (2, 1), (1, -1))
    ]

    assert run(nodes, *rows) == Counter({(((2, 1),),): 1})
