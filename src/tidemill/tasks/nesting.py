"""What JSON everybody can read. Pure."""

import math
from collections.abc import Mapping
from typing import Any

DEPTH = 100
"""How deep values may be nested: readers of JSON give up somewhere, each at a depth of its own."""


def objection(value: Any) -> str | None:
    """What is wrong with a value that is to be kept as JSON; None when nothing is."""
    below: list[Any] = [value]
    for _ in range(DEPTH):
        if not below:
            return None
        level, below = below, []
        for one in level:
            if isinstance(one, float) and not math.isfinite(one):
                return f"{one} is no number that JSON has"
            if isinstance(one, Mapping):
                below.extend(one.values())
            elif isinstance(one, list | tuple):
                below.extend(one)
    return f"it is nested more than {DEPTH} deep" if below else None
