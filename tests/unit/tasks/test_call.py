"""A call as bytes, there and back, in one process."""

import threading
from typing import Any

import pytest

from tidemill.tasks.call import (
    Origin,
    RemoteTraceback,
    TaskFailed,
    origin_of,
    pickle_call,
    pickle_function,
    read_outcome,
    run,
)
from tidemill.tasks.status import FAILED, SUCCEEDED


class Demanding(Exception):
    """Can be pickled, but not read again: it wants more than the message."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class Trap:
    """Does harm when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("the arguments were unpickled",)


def called(function: Any, *args: Any, **kwargs: Any) -> tuple[int, Any, Exception | None]:
    status, outcome = run(pickle_call(pickle_function(function), args, kwargs))
    return status, *read_outcome(outcome)


def raises(error: BaseException) -> None:
    raise error


def test_a_call_gives_what_the_function_returns() -> None:
    assert called(lambda *args, **kwargs: (args, kwargs), 1, b=2) == (SUCCEEDED, ((1,), {"b": 2}), None)
    assert called(dict) == (SUCCEEDED, {}, None)


def test_an_error_comes_with_the_traceback_as_text() -> None:
    status, value, error = called(raises, KeyError("missing"))

    assert (status, value) == (FAILED, None)
    assert isinstance(error, KeyError)
    assert isinstance(error.__cause__, RemoteTraceback)
    assert "in raises" in str(error.__cause__)
    assert "KeyError: 'missing'" in error.__cause__.text


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (SystemExit(3), "the function called sys.exit(3)"),
        (SystemExit("enough"), "the function called sys.exit('enough')"),
        (SystemExit(), "the function called sys.exit()"),
        (KeyboardInterrupt(), "the function raised KeyboardInterrupt"),
        (GeneratorExit("done"), "the function raised GeneratorExit: done"),
    ],
)
def test_a_function_ends_neither_its_runner_nor_who_waits_for_it(raised: BaseException, told: str) -> None:
    status, _, error = called(raises, raised)

    assert isinstance(error, TaskFailed)
    assert (status, str(error)) == (FAILED, told)
    assert isinstance(error.__cause__, RemoteTraceback)
    assert "in raises" in error.__cause__.text


def test_what_cannot_be_sent_back_is_told_in_words() -> None:
    unreturnable = called(threading.Lock)
    unraisable = called(lambda: raises(ValueError(threading.Lock())))
    unreadable = called(lambda: raises(Demanding(1, 2)))

    assert [answer[0] for answer in (unreturnable, unraisable, unreadable)] == [FAILED] * 3
    assert "pickle" in str(unreturnable[2])
    assert isinstance(unraisable[2], TaskFailed)
    assert "ValueError" in str(unraisable[2])
    assert isinstance(unreadable[2], TaskFailed)
    assert "1 and 2" in str(unreadable[2])
    assert "cannot be read here" in unreadable[2].__notes__[0]


def test_nonsense_is_no_call() -> None:
    status, outcome = run(b"nonsense")

    assert status == FAILED
    assert read_outcome(outcome)[1] is not None


def test_where_a_call_came_from_is_told_without_reading_it() -> None:
    origin = Origin("sqlite:////store.db", "files")

    assert origin_of(pickle_call(pickle_function(print), (Trap(),), {}, origin)) == origin
    assert origin_of(pickle_call(pickle_function(print), (Trap(),), {})) is None


def test_a_function_that_is_called_again_is_the_same_one() -> None:
    seen: list[int] = []

    def remember(number: int) -> int:
        seen.append(number)
        return len(seen)

    function = pickle_function(remember)
    outcomes = [read_outcome(run(pickle_call(function, (at,), {}))[1])[0] for at in range(3)]

    assert outcomes == [1, 2, 3]
    assert seen == []
