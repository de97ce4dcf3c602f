"""What plugins and programs answer, and what is made of it."""

from typing import Any

import pytest

from tidemill.tasks.runner.answer import Verdict, failed, read_response, read_value


def test_an_answer_is_taken_as_it_is() -> None:
    value = {"status": 3, "stdout": "out", "stderr": b"err", "result": {"a": [1]}}
    assert read_value(value) == Verdict(3, b"out", b"err", b'{"a":[1]}')


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({}, "no status"),
        ({"status": 0}, "status 0, which is not positive"),
        ({"status": -5}, "status -5, which is not positive"),
        ({"status": 2**31}, "too large"),
        ({"status": "1"}, "status '1', which is no integer"),
        ({"status": 1.0}, "no integer"),
        ({"status": True}, "no integer"),
        (None, "None, which is no object"),
        (["status", 1], "no object with a status"),
        ({"status": 1, "stdout": 5}, "stdout 5, which is no text"),
        ({"status": 1, "result": object()}, "cannot be written as JSON"),
    ],
)
def test_what_is_no_answer_fails_with_the_reason_in_stderr(value: Any, reason: str) -> None:
    verdict = read_value(value)

    assert verdict.status == 2
    assert verdict.reason is not None
    assert reason in verdict.reason
    assert verdict.stderr.decode() == verdict.reason + "\n"


def test_what_came_with_a_bad_status_is_kept() -> None:
    verdict = read_value({"status": 0, "stdout": "out", "stderr": "err\n", "result": 5})

    assert (verdict.stdout, verdict.result) == (b"out", b"5")
    assert verdict.stderr.startswith(b"err\nthe plugin answered status 0")


def test_a_text_that_is_no_unicode_can_be_told() -> None:
    assert failed("\udcff").reason == r"\udcff"
    assert read_value({"status": 1, "stdout": "\udcff"}).stdout == rb"\udcff"


def test_without_a_response_the_exit_code_counts() -> None:
    assert read_response(0, None) == Verdict(1)
    assert read_response(3, None) == failed("the program exited with code 3 and answered nothing")


def test_a_success_that_exits_badly_is_none() -> None:
    verdict = read_response(3, b'{"status": 1, "result": 5}')

    assert (verdict.status, verdict.result) == (2, b"5")
    assert verdict.reason == "the program answered status 1 but exited with code 3"


def test_a_status_of_its_own_stands_whatever_the_exit_code() -> None:
    assert read_response(3, b'{"status": 9}') == Verdict(9)


@pytest.mark.parametrize("response", [b"", b"{", b"\xff", b"[1]", b'{"status": null}'])
def test_a_response_that_is_none_fails_with_the_reason(response: bytes) -> None:
    verdict = read_response(0, response)

    assert verdict.status == 2
    assert verdict.reason


@pytest.mark.parametrize("status", [1, 2, 9])
def test_what_is_not_known_in_an_answer_is_left_out_and_said_so(status: int) -> None:
    verdict = read_response(0, b'{"status": %d, "resutl": 5, "stderr": "err\\n"}' % status)

    assert (verdict.status, verdict.result, verdict.reason) == (status, None, None)
    assert verdict.stderr.startswith(b"err\nwarning: the plugin answered ['resutl'], which was left out;")
