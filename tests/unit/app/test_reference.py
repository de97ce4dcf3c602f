"""The reference names every setting, command, route, exit code and error code that there is."""

from pathlib import Path

from fastapi.routing import iter_route_contexts

from tidemill.app.cli.exits import Exit
from tidemill.app.cli.root import NOUNS
from tidemill.app.doctor import examine
from tidemill.app.http import NodeContext, build_app
from tidemill.app.settings import CLUSTER_WIDE, Settings

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"


def rows(page: str) -> list[list[str]]:
    """The cells of every table row of a page."""
    lines = (REFERENCE / page).read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def test_every_setting_is_described_and_whether_it_may_be_cluster_wide() -> None:
    described = {
        name.strip(" `"): wide == "yes"
        for names, _, _, wide in rows("settings.md")
        for name in names.split(",")
        if name.startswith(("`", " `"))
    }

    assert described == {name: name in CLUSTER_WIDE for name in Settings.model_fields}


def test_every_command_is_described() -> None:
    first = " ".join(row[0] for row in rows("cli.md"))

    assert [noun for noun in NOUNS if f"`tidemill {noun}" not in first] == []


def test_every_exit_code_is_described() -> None:
    codes = {row[0] for row in rows("cli.md")}

    assert {str(int(code)) for code in Exit} <= codes


def test_every_route_is_described(node: NodeContext) -> None:
    described = " ".join(row[0] for row in rows("http.md"))
    routes = [route for route in iter_route_contexts(build_app(node).routes) if hasattr(route, "dependant")]

    assert [
        f"{method} {route.path_format}"
        for route in routes
        for method in route.methods or ()
        if f"`{method} {route.path_format}`" not in described
    ] == []


async def test_every_check_of_doctor_is_described(tmp_path: Path) -> None:
    findings = await examine(Settings(data=tmp_path, port=0, store="memory:"))

    assert {finding.check for finding in findings} <= {row[0] for row in rows("cli.md")}
