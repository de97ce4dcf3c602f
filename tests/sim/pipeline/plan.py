"""What goes wrong with a pipeline when, drawn from the seed."""

import random
from typing import Literal, TypeAlias

from msgspec import Struct

Kind: TypeAlias = Literal[
    "crash owner",
    "stall owner",
    "second owner",
    "crash worker",
    "stall worker",
    "crash producer",
    "store down",
    "store silent",
    "slow",
    "lossy",
    "resets",
]

TROUBLED_S = 40.0

_KINDS: tuple[Kind, ...] = (
    "crash owner",
    "stall owner",
    "stall owner",
    "second owner",
    "crash worker",
    "crash worker",
    "stall worker",
    "crash producer",
    "store down",
    "store silent",
    "slow",
    "lossy",
    "resets",
)


class Trouble(Struct, frozen=True):
    """One thing that goes wrong at `at`, for `seconds`; `which` picks the machine it befalls."""

    at: float
    seconds: float
    kind: Kind
    which: float


class Plan(Struct, frozen=True):
    producers: list[int]
    """How many appends each producer makes."""
    troubles: list[Trouble]


def draw_plan(seed: int) -> Plan:
    source = random.Random(f"pipeline {seed}")
    producers = [source.randint(5, 40) for _ in range(source.randint(1, 3))]
    return Plan(producers, [_draw(source) for _ in range(source.randint(3, 14))])


def _draw(source: random.Random) -> Trouble:
    at = source.uniform(0.5, TROUBLED_S - 1.0)
    seconds = min(source.uniform(0.1, 12.0), TROUBLED_S - at)
    return Trouble(at, seconds, source.choice(_KINDS), source.random())
