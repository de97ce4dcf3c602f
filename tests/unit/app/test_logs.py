"""Logs: JSON lines where nobody looks, text on a terminal, libraries included."""

import io
import json
import logging

import pytest

from tidemill.app.logs import configure_logs
from tidemill.base.log import get_logger


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_events_are_json_lines_off_a_terminal() -> None:
    stream = io.StringIO()
    configure_logs("info", stream)

    get_logger("tidemill.test").info("tide.high", metres=3)

    line = json.loads(stream.getvalue())
    assert (line["event"], line["metres"], line["level"], line["logger"]) == (
        "tide.high",
        3,
        "info",
        "tidemill.test",
    )


def test_events_of_libraries_take_the_same_way() -> None:
    stream = io.StringIO()
    configure_logs("info", stream)

    logging.getLogger("uvicorn.error").warning("port %d is taken", 7433)

    assert json.loads(stream.getvalue())["event"] == "port 7433 is taken"


def test_events_are_text_on_a_terminal() -> None:
    stream = Terminal()
    configure_logs("info", stream)

    get_logger("tidemill.test").info("tide.high", metres=3)

    assert "tide.high" in stream.getvalue()
    with pytest.raises(json.JSONDecodeError):
        json.loads(stream.getvalue())


def test_what_is_less_severe_than_asked_for_is_left_out() -> None:
    stream = io.StringIO()
    configure_logs("warning", stream)

    get_logger("tidemill.test").info("tide.high")
    logging.getLogger("uvicorn").info("hello")

    assert stream.getvalue() == ""
