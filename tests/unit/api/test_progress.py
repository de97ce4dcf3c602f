"""The line on the terminal: only when it takes long, only on a terminal, gone at the end."""

import io
import threading

import pytest

from tidemill.api import progress
from tidemill.api.progress import Progress, line


class Terminal(io.StringIO):
    """Says that it is a terminal, and tells when something was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = threading.Event()

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        if "#" in self.getvalue():
            self.shown.set()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(progress, "_EVERY_S", 0.001)


def test_long_work_shows_its_tasks_and_clears_the_line(impatient: None) -> None:
    terminal = Terminal()
    with Progress("step 3", lambda: (4, 8), terminal):
        assert terminal.shown.wait(10)

    assert "step 3 [############............] 4/8 tasks" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[2K")


def test_short_work_shows_nothing() -> None:
    terminal = Terminal()
    with Progress("step 3", lambda: (4, 8), terminal):
        pass

    assert terminal.getvalue() == ""


def test_a_file_gets_nothing(impatient: None) -> None:
    out = io.StringIO()
    with Progress("step 3", lambda: (4, 8), out):
        pass

    assert out.getvalue() == ""


def test_without_tasks_the_bar_is_empty() -> None:
    assert line("step 0", 0, 0, 2.0) == f"step 0 [{'.' * 24}] 0/0 tasks, 2 s"
