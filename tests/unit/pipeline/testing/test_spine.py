"""The plain model of a spine and the real one give the same answers."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.pipeline.state.files import RunFiles
from tidemill.pipeline.state.spec import Part, StateSpec
from tidemill.pipeline.state.spine import Matches, Spine
from tidemill.pipeline.testing import ModelSpine, bag, changes, columns, rows_of
from tidemill.pipeline.testing.bags import Bag
from tidemill.pipeline.zset import hash_rows, pick
from tidemill.store.blobs import open_blobs


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> RunFiles:
    folder: Path = tmp_path_factory.mktemp("runs")
    return RunFiles(open_blobs(folder, create=True))


def answers(matches: Matches) -> Bag:
    """What was found for each key, added up."""
    rows = rows_of(matches.found)
    return bag(((int(probe), *row), weight) for probe, (row, weight) in zip(matches.probe, rows, strict=True))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_the_model_answers_as_the_real_one(files: RunFiles, data: st.DataObject) -> None:
    schema = data.draw(
        columns().filter(lambda found: not any(pa.types.is_map(field.type) for field in found))
    )
    key = tuple(data.draw(st.sets(st.sampled_from(range(len(schema))))))
    rest = tuple(set(range(len(schema))) - set(key))
    spec = StateSpec("s", schema, key, order=rest)
    model, real = ModelSpine(spec), Spine(spec, Part(), files)
    for _ in range(data.draw(st.integers(1, 4))):
        for spine in (model, real):
            spine.next_round()
        change = data.draw(changes(schema))
        for spine in (model, real):
            spine.add(change)
        keys = pick(data.draw(changes(schema)).rows, key)
        hashes = hash_rows(keys)
        for before in (False, True):
            assert answers(model.lookup(keys, hashes, before=before)) == answers(
                real.lookup(keys, hashes, before=before)
            )
            for last in (False, True):
                assert answers(model.extreme(keys, hashes, last=last, before=before)) == answers(
                    real.extreme(keys, hashes, last=last, before=before)
                )
            scans = [
                [row for piece in spine.scan(before=before) for row in rows_of(piece)]
                for spine in (model, real)
            ]
            assert bag(scans[0]) == bag(scans[1])
            assert len(scans[0]) == len(scans[1]) == len(bag(scans[0]))
