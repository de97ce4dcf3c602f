"""When runs are merged: in a step, the small and young ones; in the background, by size in tiers."""

from collections.abc import Sequence

YOUNG_ROWS = 1 << 15
"""Runs up to this size are merged by the steps themselves, larger ones in the background."""

_TRIFLE_ROWS = 1 << 13


def absorbed(sizes: Sequence[int]) -> int:
    """How many of the youngest runs (the last) to merge into one; 1 means none.

    Geometric: of n rows added bit by bit, each is rewritten about log n times, and about log n runs remain.
    What together is a trifle is always merged, since looking into a run costs more than that.
    """
    count = total = 0
    for size in reversed(sizes):
        if count and size > 2 * total and size + total > _TRIFLE_ROWS:
            break
        count, total = count + 1, total + size
    return count
