"""What docs/functions.md shows works as it stands, on a node."""

import re
import textwrap
from pathlib import Path
from typing import Any

from upnode import upnode

PAGE = Path(__file__).parents[2] / "docs" / "functions.md"
_BLOCK = re.compile(r"^( *)```python\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[str]:
    return [textwrap.dedent(found[2]) for found in _BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    names: dict[str, Any] = {"__name__": "__main__"}
    with upnode(url, tmp_path, "vm-1"):
        for block in blocks():
            exec(compile(block.replace("postgresql://db/tidemill", url), str(PAGE), "exec"), names)
        for name in ("executor", "later", "cluster"):
            names[name].shutdown()

    assert len(blocks()) >= 5
    assert names["future"].result() == 1024
