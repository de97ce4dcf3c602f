"""An owner that stalls and goes on after another took over is refused, and harms nothing.

Nothing but the term protects here: both owners work on the same store and files, without a lock.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from crash.pipeline_child import OUSTED, SCENARIO
from crash.pipeline_process import Children, Folder

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

FIRST = next(number for number, act in enumerate(SCENARIO) if act.name == "abandon")
"""The act before which the owner that stalls takes over."""

POINTS = (
    "engine.open.after_take_over",
    "log.append.before_head",
    "engine.step.after_assign",
    "state.seal.after_write",
    "log.segment.after_write:5",
    "engine.step.after_run",
    "root.write.before:2",
    "engine.step.after_output",
    "state.manifest.after_sync",
    "engine.commit.after_root",
    "engine.plan.after_blob",
    "state.sweep.before_delete",
)


@pytest.fixture(scope="module")
def owners() -> Iterator[tuple[Children, Children]]:
    with Children() as one, Children() as other:
        yield one, other


@pytest.fixture(scope="module")
def undisturbed(owners: tuple[Children, Children]) -> dict[str, Any]:
    with Folder() as folder:
        assert owners[0].run(folder.job()) == 0
        return folder.report


@pytest.fixture(params=["sqlite", "postgres"])
def folder(request: pytest.FixtureRequest) -> Iterator[Folder]:
    store = None if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with Folder(store) as found:
        yield found


@pytest.mark.parametrize("point", POINTS)
def test_a_stalled_owner_is_refused_when_it_goes_on(
    folder: Folder, owners: tuple[Children, Children], undisturbed: dict[str, Any], point: str
) -> None:
    stalled, successor = owners
    assert successor.run(folder.job(stop=FIRST)) == 0
    stalled.begin(folder.job(pausepoint=point))
    stalled.wait_stopped()
    assert successor.run(folder.job(stop=len(SCENARIO) - 1, said="successor")) == 0
    ended = stalled.resume()
    (folder.path / "said").write_text("".join(f"{act}\n" for act in SCENARIO[:-1]))

    assert ended == OUSTED
    assert successor.run(folder.job()) == 0
    assert folder.report == undisturbed
