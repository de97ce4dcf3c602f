"""How fast state is: sorting and writing a run, looking up keys, extremes, merging.

    python benchmarks/state.py [rows]

Figures are of warm files (in the page cache), of the best of several turns. Where other programs share the
machine, the processor's time says more than that on the wall.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from tidemill.pipeline.state.files import RunFiles, RunWriter
from tidemill.pipeline.state.run import Run, sort_run
from tidemill.pipeline.state.seal import seal
from tidemill.pipeline.state.spec import Part, StateSpec
from tidemill.pipeline.state.spine import Spine
from tidemill.pipeline.state.stream import stream
from tidemill.pipeline.zset import ZSet, hash_rows
from tidemill.store.blobs import open_blobs

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
SPEC = StateSpec("bench", SCHEMA, (0,))
ORDERED = StateSpec("ordered", SCHEMA, (0,), order=(1,))


def change(rows: int, keys: int, seed: int) -> ZSet:
    random = np.random.default_rng(seed)
    columns = [pa.array(random.integers(0, keys, rows)), pa.array(random.integers(0, 1 << 40, rows))]
    return ZSet.of(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))


def best(act: Callable[[], object], turns: int = 5) -> tuple[float, float]:
    """Seconds of the quickest turn: on the wall, and of the processor."""
    wall, cpu = [], []
    for _ in range(turns):
        start = time.perf_counter(), time.process_time()
        act()
        wall.append(time.perf_counter() - start[0])
        cpu.append(time.process_time() - start[1])
    return min(wall), min(cpu)


def report(what: str, seconds: tuple[float, float], rows: int | None = None) -> None:
    wall, cpu = seconds
    rate = f"{rows / wall / 1e6:8.2f} M rows/s" if rows else ""
    print(f"{what:<48}{wall * 1e3:10.2f} ms {cpu * 1e3:10.2f} ms cpu {rate}")


def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = RunFiles(open_blobs(Path(folder), create=True))
        writer = RunWriter(files, "p", term=1, step=1)
        small = change(250_000, 250_000, 0)
        report("sort 250k rows", best(lambda: sort_run(small, SPEC)), 250_000)
        report("sort and write 250k rows", best(lambda: sort_and_write(small, writer, SPEC)), 250_000)
        report("sort and write 250k rows, ordered", best(lambda: sort_and_write(small, writer, ORDERED)))
        for spec in (SPEC, ORDERED):
            look(files, writer, spec, rows)
        merge(files, writer, rows)


def sort_and_write(z: ZSet, writer: RunWriter, spec: StateSpec) -> None:
    spine = Spine(spec, Part(), writer.files)
    spine.add(z)
    seal(spine, writer)


def look(files: RunFiles, writer: RunWriter, spec: StateSpec, rows: int) -> None:
    spine = Spine(spec, Part(), files)
    spine.add(change(rows, rows // 10, 1))
    refs = seal(spine, writer).added
    report(f"open a run of {rows:,} rows", best(lambda: RunFiles(files.blobs).open(refs[0], spec)))
    for count in (1_000, 100_000):
        keys = change(count, rows // 10, 2).rows.select([0])
        hashes = hash_rows(keys)
        found = len(spine.lookup(keys, hashes).probe)
        report(f"lookup of {count:,} keys: {found:,} rows", best(partial(spine.lookup, keys, hashes)))
        if spec.order:
            seconds = best(partial(spine.extreme, keys, hashes, last=True))
            report(f"greatest of {count:,} keys", seconds)
    small = Spine(spec, Part(), files, refs)
    turns = iter(range(100))
    report("add 1,000 rows and seal", best(lambda: sort_and_add(small, writer, next(turns))))


def sort_and_add(spine: Spine, writer: RunWriter, turn: int) -> None:
    spine.add(change(1_000, 1_000_000, 100 + turn))
    seal(spine, writer)


def merge(files: RunFiles, writer: RunWriter, rows: int) -> None:
    runs: list[Run] = []
    for seed in range(4):
        spine = Spine(SPEC, Part(), files)
        spine.add(change(rows // 4, rows // 10, 10 + seed))
        runs += [files.open(ref, SPEC) for ref in seal(spine, writer).added]
    seconds = best(lambda: writer.write(stream(runs, SPEC, check=True), SPEC), turns=2)
    report(f"merge of 4 runs into {rows:,} rows", seconds, rows)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
