"""The plain model of a spine and the real one give the same answers."""

from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.pipeline.state.extreme import Ranking
from tidemill.pipeline.state.files import RunFiles, RunWriter
from tidemill.pipeline.state.order import Direction
from tidemill.pipeline.state.seal import spill
from tidemill.pipeline.state.spans import Place
from tidemill.pipeline.state.spec import Part, StateSpec
from tidemill.pipeline.state.spine import Matches, Spine
from tidemill.pipeline.testing import ModelSpine, bag, changes, columns, rows_of
from tidemill.pipeline.testing.bags import Bag, Rows
from tidemill.pipeline.zset import ZSet, hash_rows, pick
from tidemill.pipeline.zset.value import take_rows
from tidemill.store.blobs import open_blobs

RANKINGS: tuple[Ranking, ...] = get_args(Ranking)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> RunFiles:
    folder: Path = tmp_path_factory.mktemp("runs")
    return RunFiles(open_blobs(folder, create=True))


def answers(matches: Matches) -> Bag:
    """What was found for each key, added up."""
    rows = rows_of(matches.found)
    return bag(((int(probe), *row), weight) for probe, (row, weight) in zip(matches.probe, rows, strict=True))


def listed(matches: Matches) -> dict[int, Rows]:
    """What was found for each key, in its order."""
    return {int(probe): rows_of(matches.found.filter(matches.probe == probe)) for probe in matches.probe}


@st.composite
def places(draw: st.DrawFn, change: ZSet, spec: StateSpec, count: int) -> Place | None:
    """Places beside rows that may be in the state."""
    if not len(change) or not spec.order or draw(st.booleans()):
        return None
    rows = take_rows(
        change.rows,
        np.array(draw(st.lists(st.integers(0, len(change) - 1), min_size=count, max_size=count)), np.int64),
    )
    columns = draw(st.integers(1, len(spec.order)))
    exact = columns == len(spec.order) and draw(st.booleans())
    hashes = hash_rows(rows) if exact else None
    return Place(pick(rows, spec.order[:columns]), draw(st.booleans()), hashes)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_the_model_answers_as_the_real_one(files: RunFiles, data: st.DataObject) -> None:
    schema = data.draw(
        columns().filter(lambda found: not any(pa.types.is_map(field.type) for field in found))
    )
    key = tuple(data.draw(st.sets(st.sampled_from(range(len(schema))))))
    rest = data.draw(st.lists(st.sampled_from(range(len(schema))), unique=True))
    directions = st.builds(Direction, st.booleans(), st.booleans())
    ways = data.draw(st.just([]) | st.lists(directions, min_size=len(rest), max_size=len(rest)))
    spec = StateSpec("s", schema, key, order=tuple(rest), directions=tuple(ways))
    model, real = ModelSpine(spec), Spine(spec, Part(), files)
    for _ in range(data.draw(st.integers(1, 4))):
        if data.draw(st.booleans()):
            spill(real, RunWriter(files, "p", 1, 1), 0)
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
            if not before:
                met = np.bincount(real.lookup(keys, hashes).probe, minlength=keys.num_rows)
                assert (real.weigh(hashes) >= met).all()
            low, high = (data.draw(places(change, spec, keys.num_rows)) for _ in range(2))
            assert answers(model.between(keys, hashes, low, high, before=before)) == answers(
                real.between(keys, hashes, low, high, before=before)
            )
            last, count = data.draw(st.booleans()), data.draw(st.integers(1, 5))
            ranking = data.draw(st.sampled_from(RANKINGS))
            found = [
                spine.extreme(
                    keys, hashes, last=last, count=count, ranking=ranking, low=low, high=high, before=before
                )
                for spine in (model, real)
            ]
            assert listed(found[0]) == listed(found[1])
            scans = [
                [row for piece in spine.scan(before=before) for row in rows_of(piece)]
                for spine in (model, real)
            ]
            assert bag(scans[0]) == bag(scans[1])
            assert len(scans[0]) == len(scans[1]) == len(bag(scans[0]))
