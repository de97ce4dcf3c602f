"""The sweep: spares what is referenced and what may still be adopted; a crash on the way costs nothing."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tidemill.pipeline.failpoint import STATE_POINTS, VARIABLE
from tidemill.pipeline.state.files import RunFiles
from tidemill.pipeline.state.manifest import read_manifest
from tidemill.pipeline.state.spec import Part, StateSpec
from tidemill.pipeline.state.spine import Spine
from tidemill.pipeline.state.sweep import clear, sweep
from tidemill.store.blobs import Blobs, open_blobs
from unit.pipeline.state.model import rows_of, scanned
from unit.pipeline.state.test_run import INTS, numbers

SPEC = StateSpec("s", INTS, (0,))


def names(blobs: Blobs) -> set[str]:
    return {entry.name for entry in blobs.entries()}


def test_files_of_former_owners_go_at_once_and_own_ones_after_the_grace_age(blobs: Blobs) -> None:
    for name in ("p/t1/s1/old", "p/t1/s1/kept", "p/t2/s1/own", "p/plan", "q/t1/s1/other"):
        blobs.put(name, b"content")
    now = time.time()

    assert sweep(blobs, "p", {"p/t1/s1/kept"}, term=2, grace_s=60, now=now) == ("p/t1/s1/old",)
    assert sweep(blobs, "p", {"p/t1/s1/kept"}, term=2, grace_s=60, now=now) == ()
    assert set(sweep(blobs, "p", {"p/t1/s1/kept"}, term=2, grace_s=60, now=now + 120)) == {
        "p/t2/s1/own",
        "p/plan",
    }
    assert names(blobs) == {"p/t1/s1/kept", "q/t1/s1/other"}


def test_a_name_without_a_term_is_only_ever_old(blobs: Blobs) -> None:
    for name in ("p/table/x", "p/t/x", "p/t٣/x", "p/x"):
        blobs.put(name, b"content")

    assert sweep(blobs, "p", (), term=9, grace_s=60, now=time.time()) == ()


def test_what_attempts_at_a_step_have_left_goes_and_nothing_else(blobs: Blobs) -> None:
    left = {"p/t2/s1/run", "p/t2/out/s1-0-0-x"}
    kept = {"p/t2/s1/kept", "p/t2/out/s1-kept", "p/t2/s10/run", "p/t2/out/s10-0-0-x", "p/t1/s1/run", "p/in/x"}
    for name in left | kept:
        blobs.put(name, b"content")
    for _ in range(2):
        clear(blobs, "p", {"p/t2/s1/kept", "p/t2/out/s1-kept"}, term=2, step=1)

        assert names(blobs) == kept


LIFE = """
import json, sys, time
from pathlib import Path
import msgspec
from tidemill.pipeline.state import (
    Manifest, Merge, Part, RunFiles, RunWriter, Spine, StateSpec, run_merge, seal, sweep, write_manifest
)
from tidemill.pipeline.state.manifest import read_manifest
from tidemill.store.blobs import BlobRef, open_blobs
from unit.pipeline.state.test_run import INTS, numbers

root, term = Path(sys.argv[1]), int(sys.argv[2])
head = root / "head.json"  # stands for the root document: replaced in one act
blobs = open_blobs(root / "blobs", create=True)
files, spec = RunFiles(blobs), StateSpec("s", INTS, (0,))
held = Manifest("p", 0)
if head.exists():
    held = read_manifest(blobs, BlobRef.from_json(json.loads(head.read_bytes())))
while held.step < 4:
    refs = held.runs.get("s", ())
    spine = Spine(spec, Part(), files, refs)
    spine.add(numbers(40_000, 1_000, seed=held.step))
    sealed = seal(spine, RunWriter(files, "p", term, held.step))
    refs = [ref for ref in refs if ref.name not in sealed.removed] + list(sealed.added)
    if len(refs) > 1:
        merge = Merge(tuple(refs), (0, 1 << 63))
        refs = list(merge.result([run_merge(files, unit) for unit in merge.units("p", term, held.step)]))
    held = Manifest("p", held.version + 1, held.step + 1, runs={"s": tuple(refs)})
    ref = write_manifest(blobs, f"p/t{term}/manifest-{held.version}", held)
    (root / "head.tmp").write_text(json.dumps(ref.to_json()))
    (root / "head.tmp").replace(head)
    sweep(blobs, "p", {*held.names, ref.name}, term=term, grace_s=0, now=time.time() + 60)
"""


@pytest.mark.crash
@pytest.mark.long
@pytest.mark.parametrize("point", STATE_POINTS)
def test_a_crash_at_any_point_loses_and_leaves_nothing(tmp_path: Path, point: str) -> None:
    def live(term: int, failpoint: str) -> int:
        environment = {**os.environ, VARIABLE: failpoint, "PYTHONPATH": str(Path(__file__).parents[3])}
        command = [sys.executable, "-c", LIFE, str(tmp_path), str(term)]
        return subprocess.run(command, env=environment, timeout=100, check=False).returncode

    assert live(1, "state.manifest.after_sync:2") == -signal.SIGKILL
    assert live(2, f"{point}:2") == -signal.SIGKILL
    assert live(3, "none") == 0

    blobs = open_blobs(tmp_path / "blobs")
    manifests = {name for name in names(blobs) if "manifest" in name}
    [last] = manifests
    found = blobs.find(last)
    assert found is not None
    manifest = read_manifest(blobs, found)
    assert names(blobs) == {*manifest.names, last}
    spine = Spine(SPEC, Part(), RunFiles(blobs), manifest.runs["s"])
    assert scanned(spine) == sum((rows_of(numbers(40_000, 1_000, seed)) for seed in range(4)), Counter())
