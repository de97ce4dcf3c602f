"""State: the running sums that operators keep, as immutable sorted runs in files, and their versions.

It promises that looking up the keys of a change costs keys * log(state); that a version, once its manifest is
published, can be opened again after any crash; and that no file is deleted that a kept version, a pin or the
open engine needs.

    spine = Spine(spec, Part(0, 2), files, manifest.runs[spec.name])
    spine.lookup(keys, hashes, before=True)     # without what this round added
    spine.add(change)                           # in memory, visible at once
    seal(spine, writer)                         # at the end of a stage: files, and what they replace

Words: a *spec* says what a state is; a *run* is sorted rows of it, in *pieces*; a *spine* is the runs whose
sum is the state; a *part* is what one pipeline worker owns; a *lane* is the share of a state that lies with
the owner of one shard where it is not spread by key; a *layer* is the disjoint runs that came out of one
merge; a *manifest* lists the runs of a version; a *pin* keeps a version for as long as it is wanted.

Read `spec`, `order`, `piece`, `run` (the file), `stream` (several runs as one), `files`, `spine` with `spans`
and `extreme`, `seal`, `merges`, `manifest`, `database` (versions), `sweep`.

It knows nothing of operators and steps, and it publishes nothing: a manifest counts once the pipeline's root
names it.
"""

from tidemill.pipeline.state.database import Database, VersionList
from tidemill.pipeline.state.files import RunFiles, RunWriter
from tidemill.pipeline.state.manifest import Manifest, read_manifest, write_manifest
from tidemill.pipeline.state.merges import Merge, Merged, MergeUnit, overdue, plan_merges, run_merge
from tidemill.pipeline.state.order import Direction
from tidemill.pipeline.state.seal import Sealed, seal, spill
from tidemill.pipeline.state.spans import Place
from tidemill.pipeline.state.spec import Part, RunRef, StateSpec
from tidemill.pipeline.state.spine import Matches, Spine
from tidemill.pipeline.state.sweep import sweep

__all__ = [
    "Spine",
    "Matches",
    "Place",
    "Direction",
    "StateSpec",
    "Part",
    "RunRef",
    "RunFiles",
    "RunWriter",
    "seal",
    "spill",
    "Sealed",
    "Merge",
    "MergeUnit",
    "Merged",
    "plan_merges",
    "run_merge",
    "overdue",
    "Manifest",
    "write_manifest",
    "read_manifest",
    "Database",
    "VersionList",
    "sweep",
]
