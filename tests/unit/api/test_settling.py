"""What futures are given, whatever comes back from a node, and on which thread."""

import sys
import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from tidemill.api.line import Ended
from tidemill.api.settling import Settleable, Settling
from tidemill.tasks.call import TaskFailed, returned, run


class Leaves:
    """Ends whoever reads it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return sys.exit, (3,)


class Tells:
    """Tells on which thread it was read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return threading.current_thread, ()


@pytest.fixture
def settling() -> Iterator[Settling]:
    settling = Settling()
    yield settling
    settling.stop()


def ended(value: Any) -> Ended:
    return Ended(1, None, returned(value))


def test_a_result_that_ends_its_reader_fails_and_the_others_come(settling: Settling) -> None:
    leaving, other = Settleable(), Settleable()
    settling.put(leaving, ended(Leaves()))
    settling.put(other, ended(Decimal(42)))

    assert isinstance(leaving.exception(5), TaskFailed)
    assert other.result(5) == 42


@pytest.mark.parametrize("value", [None, 42, "text", b"bytes", 1.5, {"a": [1, (2, {3})]}])
def test_a_plain_result_is_there_at_once(settling: Settling, value: Any) -> None:
    future = Settleable()
    settling.put(future, ended(value))

    assert future.done()
    assert future.result() == value


@pytest.mark.parametrize("value", [Decimal(42), "x" * 5000])
def test_a_result_of_another_kind_comes_too(settling: Settling, value: Any) -> None:
    future = Settleable()
    settling.put(future, ended(value))

    assert future.result(5) == value


def test_nobodys_code_runs_on_the_thread_that_tells_of_the_end(settling: Settling) -> None:
    future, called_back, called = Settleable(), Settleable(), list[threading.Thread]()
    called_back.add_done_callback(lambda _: called.append(threading.current_thread()))
    settling.put(future, ended(Tells()))
    settling.put(called_back, ended(42))
    settling.stop()

    assert called_back.result(0) == 42
    assert future.result(0).name == "tidemill-futures"
    assert [thread.name for thread in called] == ["tidemill-futures"]


def test_who_wants_to_be_called_back_afterwards_is_called_by_the_thread_that_says_so(
    settling: Settling,
) -> None:
    future, called = Settleable(), list[threading.Thread]()
    settling.put(future, ended(42))
    future.add_done_callback(lambda _: called.append(threading.current_thread()))

    assert called == [threading.current_thread()]


def test_what_was_raised_and_a_second_end_go_the_same_way(settling: Settling) -> None:
    failed, twice = Settleable(), Settleable()
    settling.put(failed, Ended(2, None, run(b"no call")[1]))
    settling.put(twice, ended(1))
    settling.put(twice, ended(2))

    assert failed.exception(5) is not None
    assert twice.result(0) == 1
