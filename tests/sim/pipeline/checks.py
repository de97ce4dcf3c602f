"""What must hold for a pipeline at every accepted write, and at the end."""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from sim.checks import Breach
from sim.world import World
from tidemill.pipeline.log.chain import Chain, Page
from tidemill.pipeline.log.file import FileRef
from tidemill.pipeline.log.head import HEADS, Entry, Head
from tidemill.pipeline.log.root import ROOTS, Root, StepRecord, Version
from tidemill.store import Done, Outcome, Write

T = TypeVar("T")


class PipelineChecks:
    """Watches what is written to the two documents and to the disk, and what pipeline workers do."""

    def __init__(self, world: World, disk: dict[str, bytes]) -> None:
        self.world = world
        self.disk = disk
        self.root: Root | None = None
        self.entries: dict[int, Entry] = {}
        self.records: dict[int, StepRecord] = {}
        self.writes = self.runs_seen = 0
        self._taken: dict[int, int] = {}
        self._acknowledged: dict[int, str] = {}
        self._stops: dict[tuple[int, int, int], int] = {}
        self._head = Head()
        self._pages: dict[str, list[Any]] = {}  # as they were decoded

    # Seen by the backend

    def handling(self) -> None:
        """Nothing is to be noted before writes are handled."""

    def check_caps(self) -> None:
        """Pipelines claim nothing."""

    def accepted(self, writes: Sequence[Write], outcomes: Sequence[Outcome]) -> None:
        for write, outcome in zip(writes, outcomes, strict=True):
            if isinstance(outcome, Done) and write.body is not None:
                self.writes += 1
                if write.collection == ROOTS:
                    self._see_root(msgspec.convert(write.body, Root))
                if write.collection == HEADS:
                    self._see_head(msgspec.convert(write.body, Head))

    def _see_root(self, root: Root) -> None:
        if self.root is not None and root.term < self.root.term:
            raise Breach(f"a write of term {root.term} was accepted after term {self.root.term}")
        if len(root.versions) > 2:
            raise Breach(f"{len(root.versions)} versions are kept")
        self.root = root
        for record in self._all(root.steps, StepRecord):
            self._see_record(record)
        self.check_files()
        self._check_trim()

    def check_files(self) -> None:
        """Whatever the root refers to is there."""
        if self.root is None:
            return
        records = self._all(self.root.steps, StepRecord)
        needed = [segment.file for record in records for segment in record.output.inline]
        for manifest in [version.file for version in _kept(self.root) if version.file is not None]:
            needed.append(manifest)
            if manifest.name in self.disk:
                needed += msgspec.json.decode(self.disk[manifest.name], type=list[FileRef])
        for file in needed:
            if file.name not in self.disk:
                raise Breach(f"{file.name} is gone, and the root refers to it")

    def _see_record(self, record: StepRecord) -> None:
        before = self.records.get(record.number)
        if before == record:
            return
        if before is not None and before.state != "assigned":
            raise Breach(f"step {record.number} was {before.state} and changed afterwards")
        if before is not None and assignment(before) != assignment(record):
            raise Breach(f"step {record.number} was assigned {before.offsets}, then {record.offsets}")
        self.records[record.number] = record
        if record.state == "done":
            for offset in record.offsets:
                if (other := self._taken.setdefault(offset, record.number)) != record.number:
                    raise Breach(f"append {offset} is in steps {other} and {record.number}")

    def _see_head(self, head: Head) -> None:
        for entry in self._all(head.entries, Entry):
            if self.entries.setdefault(entry.offset, entry) != entry:
                raise Breach(f"append {entry.offset} changed")
        self._head = head
        self._check_trim()

    def _check_trim(self) -> None:
        if self.root is None:
            return
        needed = min(version.position for version in _kept(self.root))
        if self._head.entries.first > needed:
            raise Breach(f"the log was trimmed to {self._head.entries.first}, and {needed} is needed")

    def _all(self, chain: Chain[T], kind: type[T]) -> list[T]:
        """Every item of a chain, those in pages as well."""
        items: list[T] = []
        for page in chain.pages:
            items += self._in_page(page, kind)
        return [*items, *chain.tail]

    def _in_page(self, page: Page, kind: type[T]) -> list[T]:
        if page.file.name not in self.disk:
            raise Breach(f"{page.file.name} is gone, and a document refers to it")
        found = self._pages.get(page.file.name)
        if found is None:
            raw = msgspec.json.decode(self.disk[page.file.name])["items"]
            found = msgspec.convert(raw, list[Page if page.level else kind])  # type: ignore[misc]
            self._pages[page.file.name] = found
        return [item for below in found for item in self._in_page(below, kind)] if page.level else found

    # Told by producers, owners and pipeline workers

    def acknowledged(self, offset: int, name: str) -> None:
        if self._acknowledged.setdefault(offset, name) != name:
            raise Breach(f"append {offset} was acknowledged to two")

    def runs(self, record: StepRecord) -> None:
        """A pipeline worker is about to run a step."""
        self.runs_seen += 1
        durable = self.records.get(record.number)
        if durable is None or assignment(durable) != assignment(record):
            raise Breach(f"step {record.number} runs with {record.offsets}, which is not durable")

    def commits(self, term: int, attempt: int, version: int, step: int) -> None:
        """A pipeline worker is about to commit."""
        other = self._stops.setdefault((term, attempt, version), step)
        if other != step:
            raise Breach(f"version {version} is committed before step {other} and before step {step}")

    def differs(self, step: int) -> None:
        raise Breach(f"step {step} put out something else when it was replayed")

    # At the end

    def unsettled(self) -> int:
        """How many appends are in no done step and are not discarded."""
        passed = {offset for record in self._done() for offset in range(record.start, record.stop)}
        return len(self.entries.keys() - passed)

    def check_all(self, add_up: Any) -> None:
        self._check_appends()
        self._check_outputs(add_up)

    def _check_appends(self) -> None:
        names = [name for entry in self.entries.values() for name in _names(entry)]
        for name in names:
            if names.count(name) > 1:
                raise Breach(f"{name} was appended {names.count(name)} times")
        for offset, name in self._acknowledged.items():
            if _names(self.entries[offset]) != [name]:
                raise Breach(f"append {offset} was acknowledged for {name} and is another")
        skipped = {offset for record in self._done() for offset in record.skipped}
        for offset, entry in self.entries.items():
            if (offset in self._taken) == (offset in skipped):
                raise Breach(
                    f"append {offset} is in step {self._taken.get(offset)}, discarded: {offset in skipped}"
                )
            if offset in skipped and None not in [weight for _, weight in self._rows(entry)]:
                raise Breach(f"append {offset} was discarded, and there is nothing wrong with it")

    def _check_outputs(self, add_up: Any) -> None:
        """Every step put out what an undisturbed run of the same steps puts out."""
        totals: dict[str, int] = {}
        for number, record in sorted(self.records.items()):
            if record.state != "done":
                continue
            rows = [row for offset in record.offsets for row in self._rows(self.entries[offset])]
            totals, expected = add_up(totals, rows)
            found = sorted(
                tuple(change)
                for segment in record.output.inline
                for change in msgspec.json.decode(self.disk[segment.file.name])
            )
            if found != expected:
                raise Breach(f"step {number} put out {found}, undisturbed it is {expected}")
        if sorted(self.records) != list(range(len(self.records))):
            raise Breach("some step has no record")

    def _done(self) -> list[StepRecord]:
        return [record for record in self.records.values() if record.state == "done"]

    def _rows(self, entry: Entry) -> list[tuple[str, int | None]]:
        return [
            row
            for name in _names(entry)
            for row in msgspec.json.decode(self.disk[name], type=list[tuple[str, int | None]])
        ]


def assignment(record: StepRecord) -> tuple[Any, ...]:
    """What of a step is fixed before it runs."""
    return record.start, record.stop, record.skipped, record.clock, record.fills


def _kept(root: Root) -> tuple[Version, ...]:
    return (*root.versions, *(pin.version for pin in root.pins))


def _names(entry: Entry) -> list[str]:
    return [segment.file.name for segment in entry.listing.inline]
