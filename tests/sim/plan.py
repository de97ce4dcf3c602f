"""What goes wrong when, drawn from the seed."""

import random
from typing import Literal, TypeAlias

from msgspec import Struct

Kind: TypeAlias = Literal["crash", "pause", "store down", "store silent", "slow", "lossy", "resets"]


class Trouble(Struct, frozen=True):
    """One thing that goes wrong at `at`, for `seconds`; with `node` where it befalls one machine."""

    at: float
    seconds: float
    kind: Kind
    node: int


class Plan(Struct, frozen=True):
    """A whole run: how many machines, how far off their clocks are, and all troubles."""

    clocks: list[tuple[float, float]]
    """Per machine: its offset in seconds, and how many of its seconds pass in one true second."""
    troubles: list[Trouble]
    tasks: int
    quiet_at: float


TROUBLED_S = 40.0
SLOWEST, FASTEST = 0.85, 1.15

_LENGTHS: dict[Kind, tuple[float, float]] = {
    "crash": (0.1, 15.0),
    "pause": (0.1, 15.0),
    "store down": (0.1, 8.0),
    "store silent": (0.1, 8.0),
    "slow": (1.0, 10.0),
    "lossy": (1.0, 10.0),
    "resets": (1.0, 10.0),
}


def draw_plan(seed: int) -> Plan:
    source = random.Random(f"plan {seed}")
    machines = source.randint(2, 6)
    clocks = [
        (source.choice([0.0, 3600.0, -3600.0, source.uniform(-10, 10)]), source.uniform(SLOWEST, FASTEST))
        for _ in range(machines)
    ]
    troubles = [_draw_trouble(source, machines) for _ in range(source.randint(3, 14))]
    return Plan(clocks, troubles, source.randint(5, 25), TROUBLED_S)


def _draw_trouble(source: random.Random, machines: int) -> Trouble:
    kinds: list[Kind] = ["crash", "pause", "pause", "store down", "store silent", "slow", "lossy", "resets"]
    kind = source.choice(kinds)
    shortest, longest = _LENGTHS[kind]
    at = source.uniform(1.0, TROUBLED_S - 1.0)
    seconds = min(source.uniform(shortest, longest), TROUBLED_S - at)
    return Trouble(at, seconds, kind, source.randrange(machines))
