"""Every entry of the table of proved functions is compared with Spark, for all types and options it claims.

Spark evaluates the cases of one mode in a few wide queries, each case within `TryEval` so that a row that
raises does not end the query. Then, row for row: same value of the same type, or both raise. Which error
condition it is, Spark's interpreter says for some of the rows that raise. The same answers are expected of
small batches, and with constants in place of the columns that hold them.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations, product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import StructType

from property.expression_sql import SQL, Sql
from property.expression_values import (
    KINDS,
    LETTERS,
    LINES,
    NAMES,
    READABLE,
    SIGMAS,
    column_name,
    literal_of,
    odd_literal,
    sql_literal,
    table,
)
from tidemill.pipeline import types
from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.expressions import compile, supports  # noqa: A004
from tidemill.pipeline.expressions.entry import Proved
from tidemill.pipeline.expressions.proved import TABLE
from tidemill.pipeline.plan import expression as ex

pytestmark = pytest.mark.long

WIDTH = 150
NUMBERS = {"date32[day]": pa.int32(), "timestamp[us]": pa.int64(), "timestamp[us, tz=UTC]": pa.int64()}
ERRORS_TRIED = 60
SLICED = 7
MADE_FOR = {"Cast": READABLE, "RLike": LINES, "RegExpExtract": LINES, "RegExpReplace": LINES}
"""The column of text that a function is tried on, if its first argument is text."""
TEXTS = {"Upper": (LETTERS,), "Lower": (LETTERS, SIGMAS)}
"""Further columns of text that a function is tried on."""


@dataclass(frozen=True, slots=True)
class Case:
    entry: Proved
    arguments: tuple[ex.Tree, ...]
    options: dict[str, str]
    sql: str
    to: pa.DataType | None = None

    def __str__(self) -> str:
        return f"{self.sql} {self.options}"


def cases() -> Iterator[Case]:
    for entry in TABLE:
        sql = sql_of(entry)
        names = list(entry.options or {})
        for chosen in product(*(tried_options(name, entry) for name in names)):
            for number, (arguments, to) in enumerate(signatures(entry, sql)):
                for trees in variants(entry, sql, arguments, number == 0 and "LEGACY" not in chosen):
                    yield make_case(entry, sql, trees, dict(zip(names, chosen, strict=True)), to)


def long_cases() -> Iterator[Case]:
    """CaseWhen with several branches, with and without an else, each part raising in turn."""
    (entry,) = (entry for entry in TABLE if entry.function == "CaseWhen")
    first, second = column(pa.bool_(), 0), column(pa.bool_(), 1)
    for kind in (pa.int64(), pa.large_string(), pa.float64()):
        whole: tuple[ex.Tree, ...] = first, column(kind, 0), second, column(kind, 1), column(kind, 2)
        for trees in (whole, whole[:4], whole[:2]):
            for at in range(len(trees) + 1):
                tried = [
                    raising_sometimes(tree.type, at % 3) if at == n else tree for n, tree in enumerate(trees)
                ]
                written = [written_in_sql(tree) for tree in tried]
                pairs = zip(written[: len(written) // 2 * 2 : 2], written[1::2], strict=True)
                otherwise = f"ELSE {written[-1]} " if len(written) % 2 else ""
                text = "".join(f"WHEN {condition} THEN {value} " for condition, value in pairs)
                yield Case(entry, tuple(tried), {}, f"CASE {text}{otherwise}END")


def tried_options(name: str, entry: Proved) -> tuple[str, ...]:
    """All, but of the names of UTC and of what Spark says by default just one, and as many ordinals as our
    structs have fields."""
    values = (entry.options or {})[name]
    return values[: {"zone": 1, "policy": 1, "ordinal": 2}.get(name, len(values))]


def sql_of(entry: Proved) -> Sql:
    return SQL.get(f"{entry.function}/{len(entry.arguments)}") or SQL[entry.function]


def signatures(entry: Proved, sql: Sql) -> Iterator[tuple[tuple[pa.DataType, ...], pa.DataType | None]]:
    """The types of arguments that the entry claims; for Cast also the type of the result."""
    results = [kind for name in sorted(entry.to) for kind in KINDS[name]] if sql.typed else [None]
    for count in sql.counts or (len(entry.arguments),):
        expected = entry.expected(count)
        assert expected is not None
        options = [[kind for name in sorted(kinds) for kind in KINDS[name]] for kinds in expected]
        alike = 0 if entry.same else sql.alike_from or count
        free, bound = options[: alike + 1], count - alike - 1
        for arguments in zip(*padded(free), strict=True) if sql.independent else product(*free):
            if sql.member and arguments[0].value_type != arguments[1]:
                continue
            for to in results:
                yield (*arguments, *(arguments[-1],) * bound), to


def padded(options: list[list[pa.DataType]]) -> list[list[pa.DataType]]:
    """Each list cycled to the length of the longest, every one beginning elsewhere."""
    size = max(map(len, options))
    return [[kinds[(at + shift) % len(kinds)] for at in range(size)] for shift, kinds in enumerate(options)]


def variants(
    entry: Proved, sql: Sql, arguments: tuple[pa.DataType, ...], raising: bool
) -> Iterator[tuple[ex.Tree, ...]]:
    """The arguments as columns, with one of them constant, and if asked with one of them raising."""
    columns: tuple[ex.Tree, ...] = tuple(column(kind, at % 3) for at, kind in enumerate(arguments))
    if entry.function in MADE_FOR and arguments[0] == pa.large_string():
        columns = ex.column(NAMES.index(MADE_FOR[entry.function]), arguments[0]), *columns[1:]
    for text in TEXTS.get(entry.function, ()):
        yield (ex.column(NAMES.index(text), arguments[0]),)
    if sql.named:
        yield ex.literal("p", arguments[0]), *columns[1:]
    elif entry.function == "InSet":
        for last in (1, 3):
            yield columns[0], *(odd_literal(arguments[0], at) for at in (last, 5, 7))
    elif entry.constants:
        places = sorted(entry.constants)
        for values in sql.constants:
            known = {at: ex.literal(value, arguments[at]) for at, value in zip(places, values, strict=True)}
            yield tuple(known.get(at, column) for at, column in enumerate(columns))
    else:
        yield columns
        yield from with_a_constant(entry, arguments, columns)
        if raising and len(arguments) > 1:
            for at, kind in enumerate(arguments):
                yield *columns[:at], raising_sometimes(kind, at), *columns[at + 1 :]


def with_a_constant(
    entry: Proved, arguments: tuple[pa.DataType, ...], columns: tuple[ex.Tree, ...]
) -> Iterator[tuple[ex.Tree, ...]]:
    seed = sum(map(ord, str(arguments) + entry.function))
    plenty = len(set(arguments)) > 1 and all(pa.types.is_decimal(kind) for kind in arguments)
    nested = any(pa.types.is_nested(kind) for kind in arguments)
    if len(arguments) > 1 and not nested and not (plenty and seed % 4):
        yield *columns[:-1], odd_literal(arguments[-1], seed)
        yield odd_literal(arguments[0], seed + 1), *columns[1:]


def column(kind: pa.DataType, slot: int) -> ex.Column:
    return ex.column(NAMES.index(column_name(kind, slot)), kind)


def raising_sometimes(kind: pa.DataType, slot: int) -> ex.Call:
    """An argument that raises where a double is zero: so it shows for which rows it is evaluated."""
    double, flag = pa.float64(), pa.bool_()
    one = ex.literal(1.0, double)
    quotient = ex.call("Divide", one, column(double, 2), type=double, mode="ANSI")
    test = ex.call("GreaterThan", quotient, one, type=flag)
    return ex.call("If", test, column(kind, slot), column(kind, (slot + 1) % 3), type=kind)


def make_case(
    entry: Proved, sql: Sql, trees: tuple[ex.Tree, ...], options: dict[str, str], to: pa.DataType | None
) -> Case:
    if sql.never_null:
        trees = tuple(ex.call("Coalesce", tree, odd_literal(tree.type, 1), type=tree.type) for tree in trees)
    written = [written_in_sql(tree) for tree in trees]
    text = sql.try_text if options.get("mode") == "TRY" else sql.text
    text = text.format(
        *written,
        all=", ".join(written),
        rest=", ".join(written[1:]),
        type="" if to is None else types.sql_name(to),
        field="xy"[int(options.get("ordinal", 0))],
        escape=options.get("escape", "").replace("\\", "\\\\"),
    )
    if sql.java:
        text = f"{entry.function}|{'|'.join(written)}"
        if entry.function == "AtLeastNNonNulls":
            options = {"n": str(len(trees) - len(trees) // 2)}
    return Case(entry, trees, options, text, to)


def written_in_sql(tree: ex.Tree) -> str:
    if isinstance(tree, ex.Literal):
        return sql_literal(tree)
    if isinstance(tree, ex.Column):
        return str(NAMES[tree.index])
    arguments = [written_in_sql(argument) for argument in tree.arguments]
    return SQL[tree.function].text.format(*arguments, all=", ".join(arguments))


class Oracle:
    """Spark, asked for many expressions at once."""

    def __init__(self, spark: SparkSession, data: pa.Table) -> None:
        jvm: Any = spark._jvm
        self.jvm = jvm
        self.catalyst = jvm.org.apache.spark.sql.catalyst.expressions
        self.bridge = jvm.org.apache.spark.sql.classic.ExpressionUtils
        schema = StructType.fromJson(types.schema_to_spark(data.schema))
        self.frame = spark.createDataFrame(data, schema).localCheckpoint()
        self.rows = self.frame._jdf.queryExecution().executedPlan().executeCollect()

    def ask(self, cases: list[Case]) -> tuple[list[pa.DataType], pa.Table, Any]:
        """For each case its type and a column of structs that are NULL where it raised; then the query."""
        columns = [self._column(case).alias(f"r{number}") for number, case in enumerate(cases)]
        out = self.frame.select(*columns)
        kinds = [
            types.from_spark(field["type"]["fields"][0]["type"]) for field in out.schema.jsonValue()["fields"]
        ]
        return kinds, out.toArrow(), out

    def _column(self, case: Case) -> ClassicColumn:
        value = self._java(case) if sql_of(case.entry).java else sf.expr(case.sql)
        nullable = self.catalyst.KnownNullable(self.bridge.expression(value._jc))  # as the struct is
        whole = self.bridge.expression(sf.struct(ClassicColumn(self.bridge.column(nullable)).alias("v"))._jc)
        return ClassicColumn(self.bridge.column(self.catalyst.TryEval(whole)))

    def _java(self, case: Case) -> ClassicColumn:
        name, *written = case.sql.split("|")
        first, *others = (self.bridge.expression(sf.expr(text)._jc) for text in written)
        if name == "AtLeastNNonNulls":
            made = self.catalyst.AtLeastNNonNulls(int(case.options["n"]), self._sequence([first, *others]))
        elif name == "InSet":
            member = self.bridge.expression(sf.expr(f"{written[0]} IN ({', '.join(written[1:])})")._jc)
            return ClassicColumn(self.bridge.column(member))
        elif name == "Size":
            made = self.catalyst.Size(first, case.options["legacySizeOfNull"] == "true")
        elif name == "MakeDecimal":
            assert case.to is not None
            lax = case.options["mode"] == "LEGACY"
            made = self.catalyst.MakeDecimal(first, case.to.precision, case.to.scale, lax)
        elif name == "PreciseTimestampConversion":
            made = self.catalyst.PreciseTimestampConversion(
                first, self._type(case.arguments[0].type), self._type(case.to)
            )
        else:
            made = self._class(name)(first)
        return ClassicColumn(self.bridge.column(made))

    def _type(self, kind: pa.DataType) -> Any:
        return self.jvm.org.apache.spark.sql.types.DataType.fromDDL(types.sql_name(kind))

    def _class(self, name: str) -> Any:
        home = (
            self.jvm.org.apache.spark.sql.catalyst.optimizer
            if name.startswith("Normalize")
            else self.catalyst
        )
        return getattr(home, name)

    def _sequence(self, items: list[Any]) -> Any:
        return self.jvm.org.apache.spark.api.python.PythonUtils.toSeq(items)

    def conditions(self, out: DataFrame, number: int, rows: list[int]) -> list[str]:
        """The conditions with which Spark's interpreter fails the case in those rows."""
        plan = out._jdf.queryExecution().analyzed()
        expression = plan.projectList().apply(number).child().child().children().apply(1).child()
        inputs = self.catalyst.package.AttributeSeq(plan.children().apply(0).output())
        bound = self.catalyst.BindReferences.bindReference(expression, inputs, False)
        return [condition(bound, self.rows[row]) for row in rows]


def condition(bound: Any, row: Any) -> str:
    try:
        bound.eval(row)
    except PySparkException as error:
        return str(error.getCondition())
    except Py4JJavaError:
        return "None"
    return "no error"


@pytest.fixture(scope="module")
def data() -> pa.Table:
    return table()


@pytest.fixture
def oracle(spark: SparkSession, data: pa.Table, request: pytest.FixtureRequest) -> Iterator[Oracle]:
    settings = {
        "spark.sql.ansi.enabled": str(request.param != "LEGACY").lower(),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.subexpressionElimination.enabled": "false",  # it would evaluate outside of TryEval
        "spark.sql.optimizer.inSetConversionThreshold": "2",
    }
    before = {name: str(spark.conf.get(name)) for name in settings}
    logging.getLogger("SQLQueryContextLogger").disabled = True
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield Oracle(spark, data)
    for name, value in before.items():
        spark.conf.set(name, value)


def mode_of(case: Case) -> str:
    return "LEGACY" if case.options.get("mode") == "LEGACY" else "ANSI"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("oracle", "mode"), [("ANSI", "ANSI"), ("LEGACY", "LEGACY")], indirect=["oracle"])
def test_equals_spark(oracle: Oracle, mode: str, data: pa.Table) -> None:
    wanted = [case for case in chain(cases(), long_cases()) if mode_of(case) == mode]
    batch = data.combine_chunks().to_batches()[0]
    problems: list[str] = []
    tried: set[int] = set()
    for start in range(0, len(wanted), WIDTH):
        chunk = wanted[start : start + WIDTH]
        kinds, answers, out = oracle.ask(chunk)
        for number, case in enumerate(chunk):
            answer = answers.column(number).combine_chunks()
            call = ex.call(case.entry.function, *case.arguments, type=kinds[number], **case.options)
            if supports(call) is None:
                tried.add(TABLE.index(case.entry))
                problems += [f"{case}: {problem}" for problem in compare(call, batch, answer)]
                problems += [
                    f"{case}: {problem}"
                    for problem in compare_errors(call, batch, answer, oracle, out, number)
                ]

    assert problems == []
    assert tried == {TABLE.index(case.entry) for case in wanted}


def compare(call: ex.Call, batch: pa.RecordBatch, answer: pa.Array) -> Iterator[str]:
    """Values, in the rows where Spark has one."""
    good = answer.is_valid()
    try:
        ours = compile(call)(batch.filter(good))
    except StepAborted as error:
        yield f"raised {error} where Spark does not"
        return
    spark = answer.filter(good).field(0).cast(call.type)
    if not same(compile(call)(batch.filter(good).slice(SLICED)), ours.slice(SLICED)):
        yield "another answer for a slice"
    yield from compare_small(call, batch.filter(good), spark)
    if ours.type != call.type:
        yield f"type {ours.type}, not {call.type}"
    elif not same(ours, spark):
        rows = [row for row in range(len(ours)) if not same(ours[row : row + 1], spark[row : row + 1])]
        shown = row_of(call, batch.filter(good), rows[0])
        shown_ours, shown_spark = str(ours.slice(rows[0], 1)), str(spark.slice(rows[0], 1))
        yield f"{len(rows)} rows, as {shown_ours}, Spark {shown_spark} of {shown}".replace("\n", "")


def compare_small(call: ex.Call, batch: pa.RecordBatch, spark: pa.Array) -> Iterator[str]:
    """No rows, one row, rows that are all NULL; each with any of the columns replaced by their constant."""
    nothing = pa.RecordBatch.from_arrays(
        [pa.nulls(3, kind) for kind in batch.schema.types], schema=batch.schema
    )
    last = batch.num_rows - 1
    for row in sorted({0, last // 2, last}) if len(batch) else ():
        here, expected = batch.slice(row, 1), spark.slice(row, 1)
        all_null = all(here.column(index).null_count for index in ex.columns_of(call))
        for tree in with_constants(call, here):
            tried = [(here.slice(0, 0), expected.slice(0, 0)), (here, expected)]
            if all_null:
                tried.append((nothing, pa.concat_arrays([expected] * 3)))
            for rows, answer in tried:
                yield from unlike(tree, rows, answer)


def with_constants(call: ex.Call, row: pa.RecordBatch) -> Iterator[ex.Call]:
    """The call, and what it is with some or all columns replaced by the values that they have in this row."""
    places = [at for at, argument in enumerate(call.arguments) if isinstance(argument, ex.Column)]
    for chosen in chain.from_iterable(combinations(places, count) for count in range(len(places) + 1)):
        arguments = tuple(
            literal_of(row.column(argument.index)) if at in chosen else argument  # type: ignore[union-attr]
            for at, argument in enumerate(call.arguments)
        )
        tree = ex.call(call.function, *arguments, type=call.type, **call.options)
        if supports(tree) is None:
            yield tree


def unlike(tree: ex.Call, rows: pa.RecordBatch, expected: pa.Array) -> Iterator[str]:
    constants = [at for at, argument in enumerate(tree.arguments) if isinstance(argument, ex.Literal)]
    where = f"on {len(rows)} rows, constants at {constants}"
    try:
        ours = compile(tree)(rows)
    except Exception as error:
        yield f"{where}: {error!r}"
        return
    if ours.type != tree.type or not same(ours, expected):
        yield f"{where}: {ours}, not {expected}".replace("\n", "")


def row_of(call: ex.Call, batch: pa.RecordBatch, row: int) -> list[str]:
    """Its arguments, dates and timestamps as numbers, as Python's end with the year 9999."""
    columns = (batch.column(index).slice(row, 1) for index in sorted(ex.columns_of(call)))
    return [str(column.cast(NUMBERS.get(str(column.type), column.type))[0]) for column in columns]


def compare_errors(
    call: ex.Call, batch: pa.RecordBatch, answer: pa.Array, oracle: Oracle, out: DataFrame, number: int
) -> Iterator[str]:
    """Errors, in the rows where Spark raised: of many, some."""
    rows = np.flatnonzero(answer.is_null().to_numpy(zero_copy_only=False)).tolist()
    if not rows:
        return
    evaluate = compile(call)
    rows = rows[:: 1 + len(rows) // ERRORS_TRIED]
    raised = {row: ours for row in rows if (ours := error_of(evaluate, batch.slice(row, 1))) is not None}
    if missed := [row for row in rows if row not in raised]:
        yield f"{len(missed)} of {len(rows)} rows did not raise, as {row_of(call, batch, missed[0])}"
    sample = list({ours: row for row, ours in raised.items()}.values())
    for row, theirs in zip(sample, oracle.conditions(out, number, sample), strict=True):
        if raised[row] != theirs and theirs != "None":  # a plain Java exception has no condition
            yield f"raised {raised[row]}, Spark {theirs}"


def error_of(evaluate: Any, batch: pa.RecordBatch) -> str | None:
    try:
        evaluate(batch)
    except StepAborted as error:
        return str(error)[1:].partition("]")[0]
    return None


def same(left: pa.Array, right: pa.Array) -> bool:
    if pa.types.is_struct(left.type) and left.type.num_fields == 1:
        return left.is_null().equals(right.is_null()) and same(left.field(0), right.field(0))
    if pa.types.is_large_list(left.type):
        sizes = (pc.list_value_length(side) for side in (left, right))
        return next(sizes).equals(next(sizes)) and same(left.flatten(), right.flatten())
    if not pa.types.is_floating(left.type):
        return bool(left.equals(right))
    return bool(left.is_null().equals(right.is_null())) and np.array_equal(bits(left), bits(right))


def bits(values: pa.Array) -> np.ndarray:
    """Tells -0.0 from 0.0; all NaN are one."""
    numbers = values.fill_null(0).to_numpy()
    width = np.int32 if values.type == pa.float32() else np.int64
    return np.where(np.isnan(numbers), width(-1), numbers.view(width))


def test_every_proved_function_is_tried() -> None:
    assert {entry.function for entry in TABLE} == {name.partition("/")[0] for name in SQL}
