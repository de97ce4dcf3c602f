"""The hash of what a function does: told by its code, and by nothing else."""

import functools
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidemill.pipeline.runtimes.code import code_hash

RATE = """
def rate(x, by={by}):
    {comment}
    return helped(x) * by + {constant}

def helped(x):
    return x {operator} LIMIT

LIMIT = {limit}
"""
PLAIN = {"by": 2, "comment": "pass", "constant": 1, "operator": "+", "limit": 10}


def written(**parts: Any) -> Callable[..., Any]:
    """The function of a script with these parts."""
    module: dict[str, Any] = {"__name__": "__main__"}
    exec(RATE.format(**{**PLAIN, **parts}), module)
    found: Callable[..., Any] = module["rate"]
    return found


def counter(start: int) -> Callable[[int], int]:
    def count(x: int) -> int:
        return x + start

    return count


def test_the_same_code_in_another_place_is_the_same() -> None:
    moved: dict[str, Any] = {"__name__": "__main__"}
    exec("\n\n\nOTHER = 1\n" + RATE.format(**PLAIN), moved)

    assert code_hash(written()) == code_hash(moved["rate"])
    assert code_hash(lambda x: x + 1) == code_hash(lambda x: x + 1)


def test_what_it_says_about_itself_does_not_count() -> None:
    assert code_hash(written(comment='"""Of one."""')) == code_hash(written(comment='"""Of another."""'))


@pytest.mark.parametrize(
    "part", [{"by": 3}, {"constant": 2}, {"operator": "-"}, {"limit": 11}, {"comment": "x += 1"}]
)
def test_all_that_it_is_made_of_counts(part: dict[str, Any]) -> None:
    assert code_hash(written(**part)) != code_hash(written())


def test_what_it_encloses_counts() -> None:
    assert code_hash(counter(1)) == code_hash(counter(1)) != code_hash(counter(2))


def test_one_that_calls_itself_has_a_hash() -> None:
    def down(x: int) -> int:
        return down(x - 1) if x else 0

    assert len(code_hash(down)) == 16


class Scale:
    """An object that can be called."""

    kinds = frozenset({"a", "b", "c"})

    def __init__(self, by: int) -> None:
        self.by = by

    def __call__(self, x: int) -> int:
        return self.helped(x) * self.by

    @staticmethod
    def helped(x: int) -> int:
        return x + 1

    @property
    def twice(self) -> int:
        return self.by * 2


class Other(Scale):
    @staticmethod
    def helped(x: int) -> int:
        return x + 2


def test_objects_count_with_their_class_and_what_they_hold() -> None:
    hashes = [code_hash(one) for one in (Scale(1), Scale(1), Scale(2), Other(1))]

    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


def test_methods_and_partial_functions_count_with_what_they_are_bound_to() -> None:
    assert code_hash(Scale(1).__call__) != code_hash(Scale(2).__call__)
    assert code_hash(functools.partial(pow, 2)) != code_hash(functools.partial(pow, 3))
    assert code_hash(functools.cache(counter(1))) != code_hash(functools.cache(counter(2)))


def test_functions_of_other_packages_count_by_name() -> None:
    assert code_hash(lambda x: math.sqrt(x) + 1) != code_hash(lambda x: math.cbrt(x) + 1)
    assert code_hash(math.sqrt) != code_hash(math.cbrt)


def test_types_and_ways_of_calling_count() -> None:
    assert code_hash(abs, "int", "100") != code_hash(abs, "long", "100")


SCRIPT = """
from tidemill.pipeline.runtimes.code import code_hash
LETTERS = {"e", "a", "f", "b"}
PLACES = {"x": [1, 2.5, None], "y": (b"z", ...)}
def odd(x):
    '''Whether.'''
    inner = lambda y: y in LETTERS or y in {"p", "q", "r"}
    try:
        return inner(x) and PLACES[x]
    except KeyError:
        return None
print(code_hash(odd))
"""


@pytest.fixture
def said(tmp_path: Path) -> Callable[[str, str], str]:
    def run(text: str, seed: str) -> str:
        script = tmp_path / f"script{seed}.py"
        script.write_text(text)
        done = subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        )
        return done.stdout.strip()

    return run


def test_it_is_the_same_in_every_process(said: Callable[[str, str], str]) -> None:
    assert said(SCRIPT, "1") == said("\n# moved\n" + SCRIPT, "2")
