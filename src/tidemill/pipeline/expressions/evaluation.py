"""How a call evaluates its arguments: all at once if nothing goes wrong, in Spark's order if something does.

Spark evaluates row by row and skips what it does not need: the right side of `false AND ...`, the branches
not taken, the further arguments of a function once one is NULL. A skipped argument cannot raise. Evaluating
every argument on all rows is faster, so that is tried first (`fast`); only after an error is the tree
evaluated again (`strict`), each argument on just those rows for which Spark would evaluate it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline.plan.expression import Call

Value: TypeAlias = pa.Array | pa.Scalar
"""A value per row; a scalar stands for the same value in each."""
Evaluate = Callable[[pa.RecordBatch], Value]
Kernel = Callable[..., pa.Array]
"""Takes a value per argument, at least one of them an array, no scalar NULL; gives an array."""
Build = Callable[[Call], Kernel]
"""Chooses the kernel for a call, by the types of its arguments and its options."""


@dataclass(frozen=True, slots=True)
class Node:
    """A compiled expression."""

    type: pa.DataType
    fast: Evaluate
    """Evaluates everything on all rows; may raise `StepAborted` where Spark would not."""
    strict: Evaluate
    """Evaluates only what Spark would; raises `StepAborted` exactly where Spark raises."""
    constant: pa.Scalar | None = None


Form = Callable[[Call, tuple[Node, ...]], Node]
"""Compiles a call, given its compiled arguments."""


def column(index: int, kind: pa.DataType) -> Node:
    def read(batch: pa.RecordBatch) -> pa.Array:
        return batch.column(index)

    return Node(kind, read, read)


def constant(value: pa.Scalar) -> Node:
    return Node(value.type, lambda _: value, lambda _: value, value)


def broadcast(node: Node) -> Node:
    """The same values, as an array even if they are all one constant."""
    if node.constant is None:
        return node

    def read(batch: pa.RecordBatch) -> pa.Array:
        return array_of(node.constant, batch.num_rows)

    return Node(node.type, read, read)


def array_of(value: Value, rows: int) -> pa.Array:
    if not isinstance(value, pa.Scalar):
        return value
    # Arrow cannot repeat a nested value zero times.
    return pa.repeat(value, rows) if rows else pa.array([], value.type)


def always(kernel: Kernel) -> Build:
    """The same kernel for every call."""
    return lambda _: kernel


def intolerant(build: Build, order: Sequence[int] | None = None) -> Form:
    """A function that is NULL when any argument is; later arguments are then not evaluated.

    `order` is in which order Spark evaluates the arguments, if not from left to right.
    """

    def form(call: Call, nodes: tuple[Node, ...]) -> Node:
        nodes = _kernel_arguments(nodes)
        kernel = typed(build(call), call, nodes)
        sequence = tuple(order or range(len(nodes)))
        fast = tuple(node.fast for node in nodes)

        def strict(batch: pa.RecordBatch) -> pa.Array:
            rows, kept, values = batch.num_rows, None, dict[int, Value]()
            for position in sequence:
                value = nodes[position].strict(batch)
                values[position] = value
                if isinstance(value, pa.Array) and value.null_count:
                    keep = value.is_valid()
                    batch = batch.filter(keep)
                    values = {at: _filter(known, keep) for at, known in values.items()}
                    here = pc.indices_nonzero(keep)
                    kept = here if kept is None else kept.take(here)
            result = kernel(*(values[position] for position in range(len(nodes))))
            return result if kept is None else spread(result, kept, rows)

        return Node(call.type, lambda batch: kernel(*[value(batch) for value in fast]), strict)

    return form


def total(build: Build) -> Form:
    """A function that evaluates all its arguments, whichever are NULL."""

    def form(call: Call, nodes: tuple[Node, ...]) -> Node:
        nodes = _kernel_arguments(nodes)
        kernel = typed(build(call), call, nodes)
        fast = tuple(node.fast for node in nodes)
        strict = tuple(node.strict for node in nodes)
        return Node(
            call.type,
            lambda batch: kernel(*[value(batch) for value in fast]),
            lambda batch: kernel(*[value(batch) for value in strict]),
        )

    return form


def _kernel_arguments(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    nodes = tuple(
        broadcast(node) if node.constant is not None and not node.constant.is_valid else node
        for node in nodes
    )
    # Any one would do, but a kernel may look at some of its arguments when it is built and never again.
    return tuple(map(broadcast, nodes)) if all(node.constant is not None for node in nodes) else nodes


def typed(kernel: Kernel, call: Call, nodes: Iterable[Node]) -> Kernel:
    """The kernel, and a cast if it gives another type than the call's: `pc.utf8_length` is 64 bits wide."""
    kind = call.type
    sample = kernel(*(pa.array([], node.type) if node.constant is None else node.constant for node in nodes))
    if sample.type == kind:
        return kernel
    return lambda *values: kernel(*values).cast(kind)


def _filter(value: Value, keep: pa.Array) -> Value:
    return value.filter(keep) if isinstance(value, pa.Array) else value


def spread(values: pa.Array, rows: pa.Array, length: int) -> pa.Array:
    """An array of that length with the values in those rows, and NULL in the others."""
    index = np.zeros(length, np.int64)
    missing = np.ones(length, np.bool_)
    at = rows.to_numpy(zero_copy_only=False)
    index[at] = np.arange(len(at))
    missing[at] = False
    return values.take(pa.array(index, mask=missing))


def assemble(pieces: Sequence[tuple[pa.Array, pa.Array]], length: int) -> pa.Array:
    """An array of that length from pairs (values, their rows), which together cover every row once."""
    order = np.empty(length, np.int64)
    rows = np.concatenate([at.to_numpy(zero_copy_only=False) for _, at in pieces])
    order[rows] = np.arange(length)
    return pa.concat_arrays([values for values, _ in pieces]).take(pa.array(order))
