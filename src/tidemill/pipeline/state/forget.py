"""Rows of a state that nobody will look up again, to be left out when runs are written."""

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from tidemill.pipeline.state.piece import Piece
from tidemill.pipeline.zset import ZSet
from tidemill.pipeline.zset.equality import valid_mask
from tidemill.pipeline.zset.value import Mask

DAY_US = 86_400_000_000


class Forget(Struct, frozen=True):
    """Those whose `column`, or the `field` of it, is below a number. Times count in microseconds."""

    column: int
    field: int | None
    below: int

    def spares(self, z: ZSet) -> Mask:
        """Which rows stay. One without a value does."""
        values = z.rows.column(self.column)
        if self.field is not None:
            values = pc.struct_field(values, [self.field])
        return np.asarray(~valid_mask(values) | (numbers_of(values) >= self.below))


def spared(pieces: Iterable[Piece], forget: Forget | None) -> Iterator[Piece]:
    """The pieces without the rows to forget."""
    for piece in pieces:
        kept = piece if forget is None else piece.take(np.flatnonzero(forget.spares(piece.z)))
        if len(kept):
            yield kept


def numbers_of(values: pa.Array) -> npt.NDArray[np.int64]:
    """Integers, dates and timestamps as numbers, times as microseconds; any number where there is none."""
    if values.type == pa.date32():
        return numbers_of(values.view(pa.int32())) * DAY_US
    if pa.types.is_timestamp(values.type):
        values = values.view(pa.int64())
    return np.asarray(values.fill_null(0).to_numpy(zero_copy_only=False), np.int64)
