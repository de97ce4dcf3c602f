"""How the demo looks: a table that is drawn anew on a terminal, and a line now and then anywhere else."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tidemill.app.demo.figures import Figures, ViewFigures

WIDTH = 90
"""On anything narrower, a table is no pleasure."""
SOME_ROWS = 3
_AROUND = 14
"""Lines that are not of a view."""
_AROUND_VIEW = 2
_LEGEND = "step of one view: without the operators that only others need; what is shared counts for each"
_GOING_ON = {
    "starting": "starting Spark …",
    "planning": "planning the views …",
    "loading": "loading rows …",
}


@contextmanager
def shown(
    address: str, *, headless: bool, say: Callable[[str], None], console: Console | None = None
) -> Iterator[Callable[[Figures], None]]:
    """What shows figures: drawn on a terminal that has room for it, else said in lines."""
    console = console or Console(stderr=True)
    if headless or not console.is_terminal or console.width < WIDTH:
        yield Lines(say).show
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda figures: live.update(board(figures, address, console.height), refresh=True)


def board(figures: Figures, address: str, height: int) -> RenderableType:
    """Everything that there is to see, in so many lines if possible."""
    heading = Text(f"Tidemill, {address} · stop with Ctrl-C · try your own: tidemill demo --sql FILE", "dim")
    if figures.phase in _GOING_ON or not figures.views:
        return Group(heading, Text(_GOING_ON.get(figures.phase, figures.phase), "bold"))
    each = (height - _AROUND) // len(figures.views) - _AROUND_VIEW
    lines = max(1, min(SOME_ROWS, each))
    parts = (_pulse(figures), _holdings(figures), _views(figures, lines), Text(_LEGEND, "dim"))
    return Group(heading, *parts, _judgement(figures))


def _pulse(figures: Figures) -> Text:
    return Text.assemble(
        (f"step {figures.steps:,}", "bold"),
        f": all views in {_ms(figures.last_ms)}, median {_ms(figures.median_ms)}",
        f"; {figures.rows_per_s:,.0f} rows a second",
    )


def _holdings(figures: Figures) -> Text:
    return Text("tables: " + ", ".join(f"{name} {rows:,}" for name, rows in figures.tables.items()))


def _views(figures: Figures, lines: int) -> Table:
    table = Table(expand=True, show_lines=True, header_style="bold", show_footer=True, footer_style="bold")
    table.add_column("view", "all", no_wrap=True)
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("some of them", "a step brings all views up to date", ratio=1, no_wrap=True)
    table.add_column("step\nmedian", _ms(figures.median_ms), justify="right", no_wrap=True)
    table.add_column("Spark from\nscratch", _ms(figures.recompute_ms), justify="right", no_wrap=True)
    table.add_column("times a\nstep", _times(figures.ratio), justify="right", no_wrap=True)
    table.add_column("checked", f"{figures.checked}", justify="right", no_wrap=True)
    for view in figures.views:
        table.add_row(
            view.name,
            f"{view.rows:,}",
            _some(view, lines),
            _ms(view.step_ms),
            _ms(view.recompute_ms),
            _times(view.ratio),
            Text(f"{view.wrong} wrong", "bold red") if view.wrong else f"{view.checked}",
        )
    return table


def _some(view: ViewFigures, lines: int) -> Text:
    rows = [Text(" · ".join(row)) for row in view.some[:lines]]
    return Text("\n").join([Text(" · ".join(view.columns), "dim"), *rows])


def _judgement(figures: Figures) -> Text:
    if figures.wrong:
        return Text(f"{figures.wrong} of {figures.checked} answers were wrong", "bold red")
    return Text(f"answers compared with Spark's: {figures.checked}, all equal", "green")


class Lines:
    """Says a line when something is worth one: another phase, or an answer that was checked."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._phase = ""
        self._checked: dict[str, int] = {}

    def show(self, figures: Figures) -> None:
        for view in figures.views:
            if view.checked > self._checked.get(view.name, 0):
                self._say(line(figures, view))
        if figures.phase in _GOING_ON and figures.phase != self._phase:
            self._say(_GOING_ON[figures.phase])
        self._phase, self._checked = figures.phase, {view.name: view.checked for view in figures.views}


def line(figures: Figures, view: ViewFigures) -> str:
    """A view that was just checked."""
    verdict = f"{view.wrong} of {view.checked} answers WRONG" if view.wrong else "equal"
    return (
        f"step {figures.steps}: {_ms(figures.last_ms)} (median {_ms(figures.median_ms)}), "
        f"{figures.rows_per_s:,.0f} rows/s; {view.name}, {view.rows:,} rows: "
        f"{_ms(view.step_ms)} for it alone, Spark from scratch {_ms(view.recompute_ms)}, "
        f"{_times(view.ratio)} times that; {verdict}"
    )


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} ms"


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:,.1f}"
