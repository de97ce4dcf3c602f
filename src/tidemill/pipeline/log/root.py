"""The root of a pipeline: its steps, versions and catalog, in one document that only its owner writes.

Every owner has a *term*, higher than that of all owners before it. Taking over writes the higher term into
the document; whoever still holds the document as it was before can never write it again.

`Root` and the functions on it are pure; how steps change it is in `tidemill.pipeline.step`. `RootOwner` is
the shell over a store.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tidemill.pipeline.errors import ForeignState, Forgotten, NameTaken, NoSuchName, NotOpen, WrongSettings
from tidemill.pipeline.failpoint import reach
from tidemill.pipeline.log.chain import Chain, page_names, page_out, read_chain
from tidemill.pipeline.log.file import FileRef, Files
from tidemill.pipeline.log.listing import Listing, read_listing
from tidemill.store import Collection, Conflict, Fence, Fenced, OutcomeUnknown, Store, Unavailable
from tidemill.store.blobs import BlobRef
from tidemill.store.watch import Watch

ROOTS = Collection("pipeline_roots")
FORMAT = 1
RETAINED_STEPS = 10_000
VERSIONS = 2

Json: TypeAlias = Any
State: TypeAlias = Literal["assigned", "done", "aborted"]


class Failure(Struct, frozen=True, omit_defaults=True):
    """Why a step was aborted, and where."""

    message: str
    view: str = ""
    operator: str = ""


class StepRecord(Struct, frozen=True, omit_defaults=True):
    """One step: the appends `start` to `stop - 1` without those `skipped`, and what became of it.

    `clock` is the step's own time in milliseconds since the epoch, the same when it is replayed; `since` is
    that of the last step that was done before; `fills` are the nodes that this step fills with what their
    inputs already hold; `highest` are the highest times that earlier steps brought; `late` says how many rows
    it has dropped as late, by table.
    """

    number: int
    start: int
    stop: int
    clock: int
    state: State = "assigned"
    skipped: tuple[int, ...] = ()
    fills: tuple[str, ...] = ()
    rows_in: int = 0
    output: Listing = Listing()
    seconds: float = 0.0
    runtime: str = ""
    failure: Failure | None = None
    since: int = 0
    highest: dict[str, int] = {}
    late: dict[str, int] = {}

    @property
    def offsets(self) -> tuple[int, ...]:
        """The appends in this step."""
        return tuple(offset for offset in range(self.start, self.stop) if offset not in self.skipped)

    def __repr__(self) -> str:
        """What it came to, in a line: files and fingerprints are for programs."""
        late = f", late={self.late}" if self.late else ""
        failure = f", failure={self.failure.message!r:.80}" if self.failure else ""
        return (
            f"StepRecord(number={self.number}, state={self.state!r}, appends={len(self.offsets)}, "
            f"rows_in={self.rows_in}, seconds={self.seconds:.3f}{late}{failure})"
        )


class Blame(Struct, frozen=True, omit_defaults=True):
    """The appends `start` to `stop - 1` were in a step that was aborted, and in none that was done since.

    `alone` is the append of a step that had just one: then it is that one which fails.
    """

    start: int
    stop: int
    step: int
    failure: Failure
    alone: int | None = None


class Version(Struct, frozen=True, omit_defaults=True):
    """A committed snapshot: the state before `step`, which reflects the appends before `position`.

    Version 0 is empty and has no manifest.
    """

    number: int = 0
    step: int = 0
    position: int = 0
    file: FileRef | None = None

    @property
    def manifest(self) -> BlobRef | None:
        return None if self.file is None else self.file.blob


class Pin(Struct, frozen=True):
    """A version that is kept, with all that is needed to replay from it, until the pin is taken out."""

    name: str
    version: Version


class Root(Struct, frozen=True, omit_defaults=True):
    """The document. `position` is the first append that no done step has; `catalog` and `circuit` are opaque.

    `discarded` are appends from `position` on that no step shall take; `clock` and
    `highest` are what the last step that is done says, and what all have brought.
    """

    pipeline: str
    settings: dict[str, str]
    term: int = 0
    catalog: Json = None
    circuit: Json = None
    steps: Chain[StepRecord] = Chain()
    position: int = 0
    discarded: tuple[int, ...] = ()
    blamed: tuple[Blame, ...] = ()
    versions: tuple[Version, ...] = (Version(),)
    pins: tuple[Pin, ...] = ()
    retained_steps: int = RETAINED_STEPS
    clock: int = 0
    highest: dict[str, int] = {}

    @property
    def under_way(self) -> StepRecord | None:
        """The step that is assigned and not settled, if there is one: it is the last."""
        tail = self.steps.tail
        return tail[-1] if tail and tail[-1].state == "assigned" else None

    @property
    def first(self) -> int:
        """The first step that is kept."""
        return self.steps.first

    @property
    def last(self) -> int:
        """The first step that is not settled: one more than the last whose output there is."""
        return self.steps.next - (self.under_way is not None)

    @property
    def version(self) -> Version:
        """The newest version."""
        return self.versions[-1]


# Versions and pins


def commit_version(root: Root, step: int, manifest: BlobRef) -> Root:
    """The root with a new version: the state before `step`. The last two are kept.

    Raises `Forgotten` when there is a later version: a commit whose answer was lost may have made it, and who
    goes on from there is right.
    """
    if step > root.last:
        raise ValueError(f"a version before step {step}: {root.last} is the first that is not settled")
    if step < root.version.step:
        raise Forgotten(f"a version before step {step} comes too late: the last is of {root.version.step}")
    version = Version(root.version.number + 1, step, position_at(root, step), FileRef.of(manifest))
    return forget(replace(root, versions=(*root.versions, version)[-VERSIONS:]))


def position_at(root: Root, step: int) -> int:
    """The first append that no done step before `step` has. Known for the last steps only."""
    if step == root.last:
        return root.position
    back = root.steps.next - step
    if not 0 < back <= len(root.steps.tail):
        raise Forgotten(f"the position at step {step} is not at hand any more")
    return root.steps.tail[-back].start


def open_version(root: Root, number: int) -> Root:
    """The root with this version alone, as pipeline workers open it."""
    kept = [version for version in root.versions if version.number == number]
    if not kept:
        raise Forgotten(f"version {number} is not kept; kept are {[v.number for v in root.versions]}")
    return replace(root, versions=tuple(kept))


def pin(root: Root, name: str, number: int) -> Root:
    """The root with a version pinned under a name. Repeating it changes nothing."""
    [version] = open_version(root, number).versions
    for other in root.pins:
        if other.name == name and other.version != version:
            raise NameTaken(f"pin {name!r} holds version {other.version.number}")
    return root if Pin(name, version) in root.pins else replace(root, pins=(*root.pins, Pin(name, version)))


def pinned(root: Root, name: str) -> Version:
    """The version under this pin. Raises `NoSuchName` when there is none."""
    for other in root.pins:
        if other.name == name:
            return other.version
    known = ", ".join(other.name for other in root.pins) or "none"
    raise NoSuchName(f"there is no pin {name!r}; there are: {known}")


def unpin(root: Root, name: str) -> Root:
    """The root without this pin. Raises `NoSuchName` when there is none."""
    version = pinned(root, name)
    return forget(replace(root, pins=tuple(other for other in root.pins if other != Pin(name, version))))


def kept_versions(root: Root) -> tuple[Version, ...]:
    """All versions from which somebody may replay."""
    return (*root.versions, *(pin.version for pin in root.pins))


def needed_offset(root: Root) -> int:
    """The first append that is still needed: the input log may be trimmed below."""
    return min(version.position for version in kept_versions(root))


def forget(root: Root) -> Root:
    """The root without steps that are older than the retention and that no kept version needs."""
    needed = min(version.step for version in kept_versions(root))
    return replace(root, steps=root.steps.drop_below(min(needed, root.steps.next - root.retained_steps)))


def check_settings(root: Root, settings: Mapping[str, str]) -> None:
    """Refuse settings under which the answers would be others."""
    differ = [
        f"{name} is {settings.get(name)!r} and was {root.settings.get(name)!r} when the pipeline was created"
        for name in sorted(root.settings.keys() | settings.keys())
        if root.settings.get(name) != settings.get(name)
    ]
    if differ:
        raise WrongSettings("; ".join(differ))


# The shell


async def load_root(store: Store, key: str) -> Root | None:
    """The root as it is now, for those who only read; None when there is no such pipeline."""
    found = await store.get(ROOTS, key)
    return None if found is None else _decode(found.body, key)


class RootOwner:
    """The root in the hands of its owner, from `take_over` until another takes over.

    With a `fence`, every write also needs that lease to stand.
    """

    def __init__(
        self, store: Store, key: str, files: Files, *, folder: str, fence: Callable[[], Fence] | None = None
    ) -> None:
        self._store = store
        self._key = key
        self._files = files
        self._folder = folder
        self._fence = fence
        self._root: Root | None = None
        self._revision: int | None = None
        self._unsure = False
        self._writing = asyncio.Lock()

    @property
    def root(self) -> Root:
        """The root as its owner last wrote it. Raises `NotOpen` before `take_over` and after losing it."""
        if self._root is None:
            raise NotOpen(f"pipeline {self._key!r} is not open here")
        return self._root

    async def take_over(self, fresh: Root, *, term: int | None = None) -> Root:
        """Become the owner, of a pipeline that is created from `fresh` if there is none.

        The term is the one given, or one more than that of the last owner. Raises `WrongSettings` when
        those of `fresh` are others, `ForeignState` when the pipeline is another or of a newer release, and
        `NotOpen` when the given term has been passed. Nothing is changed then.
        """
        while True:
            found = await self._store.get(ROOTS, self._key)
            root = fresh if found is None else _decode(found.body, self._key)
            check_settings(root, fresh.settings)
            if fresh.pipeline and root.pipeline != fresh.pipeline:
                raise ForeignState(f"{self._key!r} is pipeline {root.pipeline!r}, not {fresh.pipeline!r}")
            if term is not None and term <= root.term:
                raise NotOpen(f"term {term} of pipeline {self._key!r} has passed; it is at {root.term}")
            root = replace(root, term=root.term + 1 if term is None else term)
            try:
                self._revision = await self._write(root, None if found is None else found.revision)
            except Fenced as error:
                raise NotOpen(str(error)) from error
            except (Conflict, OutcomeUnknown):
                continue
            self._root, self._unsure = root, False
            return root

    async def update(self, change: Callable[[Root], Root]) -> Root:
        """Replace the root by what `change` makes of it, durable on return.

        `change` must be pure: it runs again when the root turns out to be another than was known, by an
        earlier write of this owner. Raises `NotOpen` when another owner has taken over, now and ever after;
        `OutcomeUnknown` when the store went away before it was known whether this happened: then the next
        call finds out first.
        """
        async with self._writing:
            while True:
                if self._unsure:
                    await self._reload()
                after = change(self.root)
                if after == self.root:
                    return after
                steps = await page_out(after.steps, self._files, f"{self._folder}/pages/t{after.term}")
                after = replace(after, steps=steps)
                reach("root.write.before")
                self._unsure = True
                try:
                    self._revision = await self._write(after, self._revision)
                except Fenced as error:
                    self._root = None
                    raise NotOpen(str(error)) from error
                except (Conflict, OutcomeUnknown):
                    continue
                reach("root.write.after")
                self._root, self._unsure = after, False
                return after

    async def confirm(self) -> None:
        """Raise `NotOpen` when another owner has taken over."""
        async with self._writing:
            await self._reload()

    async def records(self, start: int, stop: int | None = None) -> AsyncIterator[StepRecord]:
        """The records of these steps that are kept, in order."""
        steps = self.root.steps
        async for record in read_chain(
            steps, self._files, StepRecord, start, steps.next if stop is None else stop
        ):
            yield record

    def watch(self, *, poll_s: float = 30.0) -> AbstractAsyncContextManager[Watch]:
        """Wakes when the root may have changed."""
        return self._store.watch(ROOTS, poll_s=poll_s)

    async def names(self) -> AsyncIterator[str]:
        """The names of all blobs that the steps refer to: what a sweep must spare, besides manifests' own."""
        async for name in page_names(self.root.steps, self._files):
            yield name
        async for record in self.records(0):
            if record.output.file is not None:
                yield record.output.file.name
            for segment in await read_listing(self._files, record.output):
                yield segment.file.name
        for version in kept_versions(self.root):
            if version.file is not None:
                yield version.file.name

    async def _reload(self) -> None:
        """Read the document after a write of unknown fate. It is ours as long as it has our term."""
        try:
            found = await self._store.get(ROOTS, self._key)
        except Unavailable as error:
            raise OutcomeUnknown("the store went away before the fate of a write was known") from error
        root = None if found is None else _decode(found.body, self._key)
        if found is None or root is None or root.term != self.root.term:
            at = "gone" if root is None else f"at term {root.term}"
            message = (
                f"pipeline {self._key!r} was taken over: it is {at}, and this owner's is {self.root.term}"
            )
            self._root = None
            raise NotOpen(message)
        self._root, self._revision, self._unsure = root, found.revision, False

    async def _write(self, root: Root, revision: int | None) -> int:
        body = {**msgspec.to_builtins(root), "format": FORMAT}
        fence = self._fence() if self._fence is not None else None
        if revision is None:
            return await self._store.create(ROOTS, self._key, body, fence=fence)
        return await self._store.replace(ROOTS, self._key, body, expect=revision, fence=fence)


def _decode(body: Mapping[str, Any], key: str) -> Root:
    if (written_as := body.get("format")) != FORMAT:
        raise ForeignState(f"the root of {key!r} has format {written_as}, and this release reads {FORMAT}")
    return msgspec.convert(body, Root)
