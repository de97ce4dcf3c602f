"""Figures are drawn as a table on a terminal with room for it, and said in lines anywhere else."""

from io import StringIO

import msgspec
import pytest
from rich.console import Console

from tidemill.app.demo.figures import Figures, ViewFigures
from tidemill.app.demo.screen import WIDTH, board, line, shown

SALES = ViewFigures(
    "sales", ("category", "bids"), (("art", "12"), ("books", "7"), ("maps", "5")), 6, 200.0, 900.0, 2
)
HOT = ViewFigures("hot", ("place", "item"), (("1", "globe 7"),), 5)
FIGURES = Figures(
    "running",
    steps=7,
    rows_in=40_000,
    rows_per_s=8_123.4,
    step_ms=(100.0, 300.0, 250.0),
    tables={"bids": 1_234_567, "people": 10},
    views=(SALES, HOT),
)
WRONG = msgspec.structs.replace(FIGURES, views=(SALES, msgspec.structs.replace(HOT, checked=4, wrong=1)))


def drawn(figures: Figures, width: int = 120, height: int = 40) -> str:
    console = Console(width=width, height=height, record=True, file=StringIO())
    console.print(board(figures, "http://127.0.0.1:7433", height))
    return console.export_text()


def test_a_board_has_views_rows_times_and_what_was_checked() -> None:
    text = drawn(FIGURES)

    assert "http://127.0.0.1:7433" in text
    assert "tidemill demo --sql FILE" in text
    assert "step 7: all views in 250 ms, median 250 ms; 8,123 rows a second" in text
    assert "tables: bids 1,234,567, people 10" in text
    assert "art · 12" in text
    assert "globe 7" in text
    [sales] = [row for row in text.splitlines() if "sales" in row]
    assert [cell.strip() for cell in sales.split("│")[4:-1]] == ["200 ms", "900 ms", "4.5", "2"]
    assert "step of one view: without the operators that only others need" in text
    assert "answers compared with Spark's: 2, all equal" in text


def test_what_was_not_measured_yet_is_left_open() -> None:
    [hot] = [row for row in drawn(FIGURES).splitlines() if " hot " in row]

    assert [cell.strip() for cell in hot.split("│")[4:-1]] == ["-", "-", "-", "0"]


def test_all_views_are_compared_once_each_was_measured() -> None:
    both = msgspec.structs.replace(FIGURES, views=(SALES, msgspec.structs.replace(HOT, recompute_ms=100.0)))
    [together] = [row for row in drawn(both).splitlines() if "│ all " in row]

    assert [cell.strip() for cell in together.split("│")[4:-1]] == ["250 ms", "1,000 ms", "4.0", "2"]


def test_a_wrong_answer_stands_out() -> None:
    text = drawn(WRONG)

    assert "1 wrong" in text
    assert "1 of 6 answers were wrong" in text
    assert "all equal" not in text


def test_a_low_terminal_has_fewer_rows_of_each_view() -> None:
    assert "maps · 5" in drawn(FIGURES, height=40)
    assert "maps · 5" not in drawn(FIGURES, height=20)
    assert "art · 12" in drawn(FIGURES, height=20)


@pytest.mark.parametrize(
    ("phase", "text"),
    [("starting", "starting Spark …"), ("planning", "planning"), ("loading", "loading rows")],
)
def test_before_there_is_something_to_see_it_says_what_goes_on(phase: str, text: str) -> None:
    figures = msgspec.convert({"phase": phase}, Figures)
    lines: list[str] = []
    with shown("http://x", headless=True, say=lines.append) as show:
        show(figures)
        show(figures)

    assert text in drawn(figures)
    assert len(lines) == 1
    assert text in lines[0]


@pytest.mark.parametrize(
    ("terminal", "width", "headless"), [(False, 200, False), (True, WIDTH - 1, False), (True, 200, True)]
)
def test_without_a_terminal_that_has_room_there_is_a_line_for_each_check(
    terminal: bool, width: int, headless: bool
) -> None:
    console = Console(file=StringIO(), force_terminal=terminal, width=width, record=True)
    lines: list[str] = []
    with shown("http://x", headless=headless, say=lines.append, console=console) as show:
        show(FIGURES)
        show(FIGURES)
        show(WRONG)

    assert console.export_text() == ""
    assert lines == [line(FIGURES, SALES), line(WRONG, WRONG.views[1])]
    assert "sales, 6 rows: 200 ms for it alone, Spark from scratch 900 ms, 4.5 times that; equal" in lines[0]
    assert lines[1].endswith("1 of 4 answers WRONG")


def test_on_a_terminal_it_is_drawn() -> None:
    out = StringIO()
    console = Console(file=out, force_terminal=True, width=120, height=40)
    lines: list[str] = []
    with shown("http://x", headless=False, say=lines.append, console=console) as show:
        show(FIGURES)

    assert lines == []
    assert "globe 7" in out.getvalue()


def test_figures_are_one_document_for_programs() -> None:
    document = WRONG.document()

    assert document["views"]["sales"] == {
        "rows": 6,
        "step_ms": 200.0,
        "recompute_ms": 900.0,
        "ratio": 4.5,
        "checked": 2,
        "wrong": 0,
    }
    assert document["views"]["hot"]["recompute_ms"] is None
    assert (document["recompute_ms"], document["ratio"]) == (None, None)
    assert (document["steps"], document["checked"], document["wrong"]) == (7, 6, 1)
    assert document["step_ms"] == {"last": 250.0, "median": 250.0}
    assert "error" not in document
    assert Figures("failed", "no disk").document()["error"] == "no disk"
