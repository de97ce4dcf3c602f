"""The wheel holds the package, its licence and its command, and nothing else."""

import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_wheel_holds_the_package_and_nothing_else(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        entry_points = archive.read(f"tidemill-{version('tidemill')}.dist-info/entry_points.txt").decode()
    sources = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == sources
    assert {name.split("/")[0] for name in names} == {"tidemill", f"tidemill-{version('tidemill')}.dist-info"}
    assert "tidemill/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "tidemill = tidemill.app.cli:main" in entry_points
