"""The end of a stage: what a spine holds in memory becomes files."""

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.pipeline import failpoint
from tidemill.pipeline.state.files import RunWriter
from tidemill.pipeline.state.forget import Forget, spared
from tidemill.pipeline.state.merges import YOUNG_ROWS, absorbed
from tidemill.pipeline.state.spec import RunRef
from tidemill.pipeline.state.spine import Held, Spine
from tidemill.pipeline.state.stream import stream


@dataclass(frozen=True, slots=True)
class Sealed:
    """How a step changed the runs of a state: new ones, and the names of those merged into them."""

    added: tuple[RunRef, ...] = ()
    removed: tuple[str, ...] = ()


def seal(spine: Spine, writer: RunWriter, forget: Forget | None = None) -> Sealed:
    """Write what was added since the last seal, together with young runs that are cheap to merge with it.

    Usually one file; none when nothing was added. Until somebody adopts the result it has changed nothing:
    its files are orphans. The spine goes on from the result, without the rows to forget.
    """
    memory = [held for held in spine.held if held.ref is None]
    removed: tuple[str, ...] = ()
    if memory:
        young = [held for held in spine.held if _is_young(spine, held)]
        count = absorbed([*(held.rows for held in young), sum(held.rows for held in memory)]) - 1
        taken = young[len(young) - count :]
        removed = tuple(held.ref.name for held in taken if held.ref is not None and held.sealed)
        _write(spine, writer, [*taken, *memory], forget)
    added = tuple(held.ref for held in spine.held if held.ref is not None and not held.sealed)
    for held in spine.held:
        held.sealed = True
    return Sealed(added, removed)


def spill(spine: Spine, writer: RunWriter, limit_bytes: int) -> None:
    """Between two rounds, write what was added if it takes more memory than this; `seal` tells of it."""
    if spine.memory_bytes > limit_bytes:
        _write(spine, writer, [held for held in spine.held if held.ref is None])


def _is_young(spine: Spine, held: Held) -> bool:
    return held.ref is not None and held.rows <= YOUNG_ROWS and spine.part.owns(held.ref)


def _write(spine: Spine, writer: RunWriter, several: Sequence[Held], forget: Forget | None = None) -> None:
    """Replace runs of the spine by one file that holds their sum."""
    failpoint.reach("state.seal.before_write")
    pieces = stream([spine.open(held) for held in several], spine.spec)
    ref = writer.write(spared(pieces, forget), spine.spec, spine.lane)
    failpoint.reach("state.seal.after_write")
    spine.replace(several, [] if ref is None else [Held(None, ref)])
