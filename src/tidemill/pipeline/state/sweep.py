"""Deleting files that nobody needs any more."""

from collections.abc import Iterable

from tidemill.pipeline import failpoint
from tidemill.pipeline.state.files import term_of
from tidemill.store.blobs import Blobs


def sweep(
    blobs: Blobs, folder: str, referenced: Iterable[str], *, term: int, grace_s: float, now: float
) -> tuple[str, ...]:
    """Delete the files of a pipeline that nobody needs, on behalf of its owner under `term`; say which.

    A file without reference goes if it is of a lower term, as nobody can adopt it any more, or else if it is
    older than the grace age, in which whoever wrote it must have had it adopted. `referenced` are the files
    of all kept versions and pins, of the open engine, and the segments of the logs, as of a moment after the
    term was taken. `now` is in seconds since the epoch. Safe to repeat and to break off.
    """
    kept = frozenset(referenced)
    swept = []
    for entry in blobs.entries(folder):
        written_in = term_of(entry.name, folder)
        if written_in is not None and written_in < term and entry.name not in kept:
            failpoint.reach("state.sweep.before_delete")
            blobs.delete(entry.name)
            swept.append(entry.name)
    failpoint.reach("state.sweep.after_delete")
    return (*swept, *blobs.sweep(kept, grace_s=grace_s, now=now, under=folder).names)


def clear(blobs: Blobs, folder: str, referenced: Iterable[str], *, term: int, step: int) -> None:
    """Delete what attempts at a step have written under this term and nobody refers to.

    They have failed: who still writes for one is not adopted any more. Safe to repeat and to break off.
    """
    kept = frozenset(referenced)
    place = f"{folder}/t{term}"
    runs, outputs = f"{place}/s{step}", f"{place}/out"
    for entry in (*blobs.entries(runs), *blobs.entries(outputs)):
        if entry.name.startswith((f"{runs}/", f"{outputs}/s{step}-")) and entry.name not in kept:
            blobs.delete(entry.name)
