import pytest
from msgspec.structs import replace

from tidemill.pipeline.errors import Forgotten, NameTaken, NoSuchName, WrongSettings
from tidemill.pipeline.log.file import FileRef
from tidemill.pipeline.log.head import Entry
from tidemill.pipeline.log.listing import Listing
from tidemill.pipeline.log.root import (
    Root,
    Version,
    check_settings,
    commit_version,
    needed_offset,
    open_version,
    pin,
    position_at,
    unpin,
)
from tidemill.pipeline.step import Limits, assign, complete
from tidemill.store.blobs import BlobRef

FRESH = Root("p", {"ansi": "true"}, retained_steps=2)
MANIFEST = BlobRef(1, "-", "manifest")
FILE = FileRef.of(MANIFEST)


def stepped(root: Root, count: int) -> Root:
    for _ in range(count):
        entry = Entry("id", Listing(), (), 1, 1, offset=root.position)
        root = assign(root, [entry], Limits(), clock=0)
        root = complete(root, root.last, Listing())
    return root


def test_the_last_two_versions_are_kept() -> None:
    root = FRESH
    for _ in range(3):
        root = stepped(root, 1)
        root = commit_version(root, root.last, MANIFEST)

    assert root.versions == (Version(2, 2, 2, FILE), Version(3, 3, 3, FILE))
    assert root.version.manifest == MANIFEST
    assert needed_offset(root) == 2


def test_a_version_may_be_of_an_earlier_step() -> None:
    root = commit_version(stepped(FRESH, 5), 3, MANIFEST)

    assert root.version == Version(1, 3, 3, FILE)


def test_a_version_of_a_step_that_is_not_settled_is_refused() -> None:
    root = assign(stepped(FRESH, 1), [], Limits(), clock=0)

    with pytest.raises(ValueError, match="before step 2"):
        commit_version(root, 2, MANIFEST)
    with pytest.raises(Forgotten, match="comes too late"):
        commit_version(commit_version(root, 1, MANIFEST), 0, MANIFEST)


def test_the_position_at_a_step_long_ago_is_not_at_hand() -> None:
    root = stepped(FRESH, 3)

    assert [position_at(root, step) for step in range(4)] == [0, 1, 2, 3]
    with pytest.raises(Forgotten):
        position_at(replace(root, steps=replace(root.steps, tail=root.steps.tail[2:])), 1)


def test_opening_a_version_discards_the_other() -> None:
    root = commit_version(stepped(FRESH, 1), 1, MANIFEST)

    assert open_version(root, 0).versions == (Version(0, 0, 0, None),)
    with pytest.raises(Forgotten):
        open_version(open_version(root, 1), 0)


def test_a_pin_keeps_its_version_and_all_since() -> None:
    root = commit_version(stepped(FRESH, 1), 1, MANIFEST)
    root = pin(root, "keep", 1)
    for _ in range(5):
        root = stepped(root, 1)
        root = commit_version(root, root.last, MANIFEST)

    assert [version.number for version in root.versions] == [5, 6]
    assert needed_offset(root) == 1
    assert root.first == 1

    root = unpin(root, "keep")

    assert needed_offset(root) == 5
    assert root.first == 4
    with pytest.raises(NoSuchName):
        unpin(root, "keep")


def test_a_pin_is_not_moved() -> None:
    root = commit_version(stepped(FRESH, 1), 1, MANIFEST)
    root = pin(root, "keep", 1)

    assert pin(root, "keep", 1) == root
    with pytest.raises(NameTaken):
        pin(root, "keep", 0)


def test_other_settings_are_refused_by_name() -> None:
    check_settings(FRESH, {"ansi": "true"})

    with pytest.raises(WrongSettings, match="ansi is 'false' and was 'true'"):
        check_settings(FRESH, {"ansi": "false"})
    with pytest.raises(WrongSettings, match="zone is 'UTC' and was None"):
        check_settings(FRESH, {"ansi": "true", "zone": "UTC"})
