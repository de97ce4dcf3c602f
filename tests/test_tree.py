"""The tree speaks of the product alone: it names no package registry and no one's machine."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
UNREAD = {"__pycache__", "node_modules", "dist", "uv.lock"}
HIDDEN_BUT_OURS = {".ci", ".github", ".gitignore"}
FOREIGN = re.compile(
    r"pypi\.org|pythonhosted\.org|registry\.npmjs\.org|yarnpkg\.com|repo1?\.maven\.org|docker\.io|ghcr\.io"
    r"|(?<![\w.])/(?:root|work|home/\w+|Users/\w+)/"
)


def texts(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.iterdir()):
        if path.name in UNREAD or (path.name.startswith(".") and path.name not in HIDDEN_BUT_OURS):
            continue
        if path.is_dir():
            yield from texts(path)
        else:
            # Bytes that are no text read as signs that match nothing.
            yield path, path.read_text(encoding="utf-8", errors="replace")


def offences(folder: Path) -> list[str]:
    return [
        f"{path.relative_to(folder)}:{number}: {line.strip()}"
        for path, text in texts(folder)
        for number, line in enumerate(text.splitlines(), 1)
        if FOREIGN.search(line)
    ]


def test_no_file_names_a_registry_or_a_machine() -> None:
    assert offences(ROOT) == []


def test_such_a_name_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    user = "ada"
    machine = f"/home/{user}/notes"
    (tmp_path / "docs" / "page.md").write_text(f"fine: ~/notes\nnot fine: {machine}\n")
    assert offences(tmp_path) == [f"docs/page.md:2: not fine: {machine}"]
