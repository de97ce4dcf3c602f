"""Names in an archive: no two alike, and none that leads out of a folder."""

import pytest

from tidemill.app.archive import FAILED, Names


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("cats/1.png", "cats/1.png"),
        ("../../etc/passwd", "etc/passwd"),
        ("/root", "root"),
        ("a\\..\\b", "a_.._b"),
        ("C:\\x", "C__x"),
        ("..", "job"),
        ("a//b/./c", "a/b/c"),
        (FAILED, f"{FAILED}-2"),
    ],
)
def test_a_key_becomes_a_name_within_the_folder(key: str, name: str) -> None:
    assert Names().name(key) == name


def test_no_two_names_are_alike_on_any_file_system() -> None:
    names = Names()

    assert [names.name(key) for key in ("a", "./a", "A", "a-2")] == ["a", "a-2", "A-3", "a-2-2"]
