"""Statements and frames into plans: what a pipeline computes next, and which of its nodes start empty."""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec
import pyarrow as pa

from tidemill.pipeline.engine import Plan
from tidemill.pipeline.errors import NameTaken, NoSuchName, PipelineError, Refused, WrongSettings
from tidemill.pipeline.operators.registry import build
from tidemill.pipeline.plan import node as nodes
from tidemill.pipeline.plan.circuit import Circuit
from tidemill.pipeline.runtimes.functions import Functions
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.types import schema_from_spark
from tidemill.pipeline.worker import state_name
from tidemill.sql import catalyst
from tidemill.sql.catalog import Addition, Catalog, Table, View
from tidemill.sql.catalyst import Frame, Frames, Lacking
from tidemill.sql.explain import Form, explain
from tidemill.sql.plan import plan_view, register
from tidemill.sql.recompute import Recompute
from tidemill.sql.recursion import LEVELS
from tidemill.sql.relation import Origin
from tidemill.sql.statements import (
    AnyStatement,
    CreateRecursiveView,
    CreateTable,
    CreateView,
    DropTable,
    DropView,
    parse,
)


@dataclass(frozen=True, slots=True)
class PlanChange:
    """The plan after a statement, and the fingerprints of the nodes that it brings."""

    plan: Plan
    fresh: frozenset[str]


class _Kept(msgspec.Struct, frozen=True):
    """What of a catalog is stored with a plan, beside the circuit."""

    tables: dict[str, Table] = {}
    views: dict[str, View] = {}
    epoch: int = 0
    origins: dict[str, tuple[Origin, ...]] = {}


class Planner:
    """The tables, views and circuit of one pipeline on one session. Decides; somebody else acts.

    A change counts once `load` is called with its plan. What there is may be asked from any thread.
    """

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._frames = Frames(spark)
        self._catalog = Catalog()
        self._epoch = 0
        self._made: dict[str, Frame] = {}  # of which views were made that have no text
        self.unfilled: frozenset[str] = frozenset()  # nodes that have not run, and will not before a new view

    def load(self, plan: Plan) -> None:
        """Go on from this plan."""
        kept = msgspec.convert(plan.catalog or {}, _Kept)
        self._catalog = Catalog(kept.tables, kept.views, plan.circuit, kept.origins)
        self._epoch = kept.epoch
        self._made = {name: frame for name, frame in self._made.items() if name in kept.views}
        register(self._frames, self._catalog)

    # What there is

    @property
    def functions(self) -> Functions:
        """The Python functions that the views call."""
        return self._frames.functions

    @cached_property
    def settings(self) -> dict[str, str]:
        """The settings of the session that change answers, as they were when first asked for."""
        return catalyst.settings(self._spark)

    def check_settings(self) -> None:
        """Raise `WrongSettings` when the session's settings have been changed since."""
        now = catalyst.settings(self._spark)
        changed = [name for name, value in self.settings.items() if now.get(name) != value]
        if changed:
            name = changed[0]
            raise WrongSettings(
                f"{name} was changed to {now.get(name)!r} on the open session; the pipeline was opened with "
                f"{self.settings[name]!r}: set it back"
            )

    def since(self, view: str) -> int:
        """The first step that may have changed a view."""
        name = self.name_of(view)
        if name not in self._catalog.views:
            known = ", ".join(self._catalog.views) or "none yet"
            raise NoSuchName(f"{view} is a table, and changes are kept of views: {known}")
        return self._catalog.views[name].since

    @property
    def zone(self) -> str:
        """The session's time zone, in which timestamps without one are meant."""
        return self.settings["spark.sql.session.timeZone"]

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(self._catalog.tables)

    @property
    def views(self) -> tuple[str, ...]:
        return tuple(self._catalog.views)

    def frame(self, name: str) -> Frame:
        """A table or view as an empty frame, for queries over it."""
        name = self.name_of(name)
        register(self._frames, self._catalog)
        return self._frames.frame(name)

    def name_of(self, name: str) -> str:
        """The table or view that the session means by the name, spelled as it was created."""
        return self._name_in(self._catalog, name)

    def schema(self, name: str) -> pa.Schema:
        catalog = self._catalog
        return schema_from_spark(catalog.entry(self._name_in(catalog, name)).schema)

    def source(self, table: str) -> nodes.Source:
        """The source of a table that is settled."""
        position = self._catalog.tables[self._table(table)].position
        found = self._catalog.circuit.nodes[position] if position is not None else None
        if not isinstance(found, nodes.Source):
            raise NoSuchName(f"table {table} has no source yet")
        return found

    def state(self, name: str) -> StateSpec | None:
        """The state that holds the rows of a table or view; None for a table that was never appended to."""
        catalog = self._catalog  # one and the same: another may be loaded meanwhile
        entry, circuit = catalog.entry(self._name_in(catalog, name)), catalog.circuit
        if entry.position is None:
            return None
        node = circuit.nodes[entry.position]
        [spec] = build(node, [circuit.nodes[index] for index in node.inputs]).states()
        return replace(spec, name=state_name(circuit, entry.position, spec.name))

    def explain(self, form: Form = "text") -> str:
        """The circuit with all that is known of its operators."""
        return explain(self._catalog.circuit, self._catalog.origins, form)

    def fingerprint(self, view: str) -> str:
        """Of the node whose state holds the rows of a view."""
        return self._catalog.circuit.fingerprints[self._catalog.views[view].position]

    def recompute(self, tables: Callable[[str], Frame], clock_ms: int) -> Recompute:
        """The views as Spark computes them from scratch, on the rows that `tables` gives by name."""
        register(self._frames, self._catalog)
        return Recompute(self._frames, self._catalog, self._made, tables, clock_ms)

    # What may become of it

    def script(self, text: str, file: str | None = None) -> PlanChange | None:
        """The change that all statements of a script make together; None if they change nothing.

        Raises the error of the first that is refused, with its place, and the file if one is named.
        """
        trial = copy(self)
        trial._frames = self._frames.copy()
        plan, fresh = None, frozenset[str]()
        try:
            statements = parse(text)
            for at, statement in enumerate(statements):
                change = trial._statement(statement, statements[at + 1 :])
                if change is not None:
                    trial.load(change.plan)
                    trial.unfilled |= change.fresh
                    plan, fresh = change.plan, fresh | change.fresh
        except PipelineError as error:
            error.file = file
            raise
        return None if plan is None else PlanChange(plan, fresh & set(plan.circuit.fingerprints))

    def dated(self, plan: Plan, step: int) -> Plan:
        """A new plan that takes effect before this step: its new views are of that time."""
        kept = msgspec.convert(plan.catalog, _Kept)
        views = {
            name: replace(view, since=step) if self._is_new(plan.circuit.nodes[view.position]) else view
            for name, view in kept.views.items()
        }
        catalog = msgspec.to_builtins(msgspec.structs.replace(kept, views=views))
        return msgspec.structs.replace(plan, catalog=catalog)

    def _is_new(self, node: nodes.AnyNode) -> bool:
        """Whether a view was planned after the plan that was loaded last."""
        return isinstance(node, nodes.View) and node.epoch >= self._epoch

    def view(self, name: str, frame: Frame) -> PlanChange:
        """A view by a frame over the tables."""
        self._check_free(name, "view")
        change = self._added(name, self._planned(name, frame))
        self._made = {**self._made, name: frame}
        return change

    def settle(self, table: str) -> PlanChange | None:
        """Decide by which columns a table's rows are spread, as they are about to come; None if it is."""
        table = self._table(table)
        entry = self._catalog.tables[table]
        if entry.position is not None:
            return None
        key = entry.shard_key or entry.key or tuple(range(len(entry.schema["fields"])))
        source = entry.source(table, key)
        circuit = Circuit((*self._catalog.circuit.nodes, source))
        settled = replace(entry, shard_key=key, position=len(circuit.nodes) - 1)
        tables = {**self._catalog.tables, table: settled}
        return self._changed(replace(self._catalog, tables=tables, circuit=circuit))

    def _statement(self, statement: AnyStatement, rest: Sequence[AnyStatement]) -> PlanChange | None:
        """The change that a statement makes; what it lacks may be created by the rest of the script."""
        try:
            match statement:
                case CreateTable():
                    return self._create_table(statement)
                case CreateView():
                    return self._create_view(statement)
                case DropTable() | DropView():
                    return self._drop(statement)
        except PipelineError as error:
            error.place = error.place or statement.place
            later = {one.name: one for one in rest if isinstance(one, CreateTable | CreateView)}
            if isinstance(error, Lacking) and (name := self._found(error.name, later)):
                what = f"{'table' if isinstance(later[name], CreateTable) else 'view'} {name}"
                line = later[name].place.line
                error.args = (f"view {statement.name}: {what} is created later, at line {line}: move it up",)
            raise

    def _create_table(self, statement: CreateTable) -> PlanChange | None:
        if statement.if_not_exists and self._found(statement.name, self._catalog.tables):
            return None
        self._check_free(statement.name, "table")
        schema, key = catalyst.table_schema(self._spark, statement)
        lateness = catalyst.lateness_of(self._spark, statement, schema)
        table = Table(schema, key, key or None, self._epoch, lateness=lateness)
        return self._changed(replace(self._catalog, tables={**self._catalog.tables, statement.name: table}))

    def _create_view(self, statement: CreateView) -> PlanChange | None:
        if statement.if_not_exists and self._found(statement.name, self._catalog.views):
            return None
        self._check_free(statement.name, "view")
        addition = self._planned(statement.name, statement)
        levels = (statement.levels or LEVELS) if isinstance(statement, CreateRecursiveView) else 0
        return self._added(statement.name, addition, statement.query, levels)

    def _planned(self, name: str, query: CreateView | Frame) -> Addition:
        catalog = replace(self._catalog, unfilled=self.unfilled)
        return plan_view(self._frames, catalog, name, query, self._epoch)

    def _added(self, name: str, addition: Addition, query: str = "", levels: int = 0) -> PlanChange:
        tables = dict(self._catalog.tables)
        for table, key in addition.shard_keys.items():
            tables[table] = replace(tables[table], shard_key=key)
        for table, position in addition.sources.items():
            tables[table] = replace(tables[table], position=position)
        view = View(addition.schema, addition.position, query=query, levels=levels)
        views = {**self._catalog.views, name: view}
        origins = {**self._catalog.origins, **addition.origins}
        return self._changed(Catalog(tables, views, addition.circuit, origins))

    def _drop(self, statement: DropTable | DropView) -> PlanChange | None:
        is_view = isinstance(statement, DropView)
        name = self._found(statement.name, self._catalog.views if is_view else self._catalog.tables)
        if name is None:
            if statement.if_exists:
                return None
            kind = "view" if is_view else "table"
            raise NoSuchName(f"there is no {kind} {statement.name}")
        self._check_unused(name)
        tables = {other: entry for other, entry in self._catalog.tables.items() if is_view or other != name}
        views = {other: entry for other, entry in self._catalog.views.items() if not is_view or other != name}
        return self._changed(_pruned(replace(self._catalog, tables=tables, views=views)))

    def _check_unused(self, name: str) -> None:
        entry = self._catalog.views.get(name) or self._catalog.tables.get(name)
        if entry is None or entry.position is None:
            return
        above = self._catalog.circuit.views_above(entry.position)
        if users := [view for view in above if view != name]:
            raise Refused(f"{name} is used by {', '.join(users)}: drop those first")

    def _changed(self, catalog: Catalog) -> PlanChange:
        kept = _Kept(catalog.tables, catalog.views, self._epoch + 1, catalog.origins)
        fresh = set(catalog.circuit.fingerprints) - set(self._catalog.circuit.fingerprints)
        return PlanChange(Plan(catalog.circuit, msgspec.to_builtins(kept)), frozenset(fresh))

    def _found(self, name: str, names: Iterable[str]) -> str | None:
        """Which of the names is meant, as Spark compares names."""
        if name in names or self.settings["spark.sql.caseSensitive"] == "true":
            return name if name in names else None
        return next((known for known in names if known.lower() == name.lower()), None)

    def _name_in(self, catalog: Catalog, name: str) -> str:
        names = (*catalog.tables, *catalog.views)
        found = self._found(name, names)
        if found is None:
            known = ", ".join(names) or "none yet"
            raise NoSuchName(f"there is no table or view {name}; there are: {known}")
        return found

    def _table(self, name: str) -> str:
        """The name of a table as it was created."""
        found = self._found(name, self._catalog.tables)
        if found is None:
            known = ", ".join(self._catalog.tables) or "none yet"
            raise NoSuchName(f"there is no table {name}; tables: {known}")
        return found

    def _check_free(self, name: str, what: str) -> None:
        for kind, names in (("view", self._catalog.views), ("table", self._catalog.tables)):
            if found := self._found(name, names):
                alike = "of that name" if found == name else f"{found}, and the session ignores case"
                raise NameTaken(f"{what} {name}: there is a {kind} {alike}")


def _pruned(catalog: Catalog) -> Catalog:
    """The catalog without the nodes that no table or view needs any more."""
    positions = [table.position for table in catalog.tables.values() if table.position is not None]
    positions += [view.position for view in catalog.views.values()]
    needed = catalog.circuit.below(positions)
    places = {old: new for new, old in enumerate(sorted(needed))}
    kept = [catalog.circuit.nodes[old] for old in sorted(needed)]
    circuit = Circuit(
        tuple(msgspec.structs.replace(node, inputs=tuple(places[at] for at in node.inputs)) for node in kept)
    )
    tables = {
        name: replace(entry, position=None if entry.position is None else places[entry.position])
        for name, entry in catalog.tables.items()
    }
    views = {name: replace(entry, position=places[entry.position]) for name, entry in catalog.views.items()}
    origins = {mark: catalog.origins[mark] for mark in circuit.fingerprints if mark in catalog.origins}
    return Catalog(tables, views, circuit, origins)
