"""What a state holds: the declaration by which an operator asks for one."""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class StateSpec:
    """The running sum of a stream of Z-sets, found by `key`.

    `width` is the number of weights per row, None for plain Z-sets. Rows of one key are kept in the order of
    the columns `order`, when given. A state that is not `aligned` is not spread over pipeline workers by its
    key: each may hold any row.
    """

    name: str
    schema: pa.Schema
    key: tuple[int, ...]
    width: int | None = None
    order: tuple[int, ...] = ()
    aligned: bool = True
