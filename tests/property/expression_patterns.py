"""Regular expressions on which Java and ours are compared, and text that they may be found in.

The environment's TIDEMILL_PATTERNS says how many random ones are tried.
"""

import os
import random

COUNT = int(os.environ.get("TIDEMILL_PATTERNS", "40"))
SIGNS = ["a", "b", "A", "1", "é", "&", "=", " ", r"\.", r"\n", r"\t", r"\\", "日"]
SETS = [
    r"\d",
    r"\s",
    r"\w",
    r"\D",
    r"\S",
    r"\W",
    ".",
    "[ab]",
    "[^a]",
    r"[^&\s]",
    "[a-c1]",
    r"[\w.-]",
    r"[^\S]",
]
QUANTIFIERS = ["*", "+", "?", "{2}", "{1,2}", "{1,}", "{0,3}"]
ALPHABET = ["a", "b", "A", "B", "1", "2", "é", "日", "😀", "&", "=", ".", " ", "\t", "\\", "_", "-"]
LINE_ENDS = ["\n", "\r", "\r\n", "\n\r", "\x85", "\u2028", "\u2029", "\x0b", "\f", "\x00"]

CHOSEN: tuple[tuple[str, int], ...] = (
    ("", 0),
    ("(&|^)channel_id=([^&]*)", 2),
    (r"(\d+)-(\d+)", 1),
    (r"(\d+)-(\d+)", 2),
    (r"(\d+)-(\d+)", 3),
    (r"(\d+)-(\d+)", -1),
    ("^a", 0),
    ("a$", 0),
    ("^$", 0),
    (r"(\s)$", 1),
    (r".*\s$", 0),
    ("(.*)$", 1),
    ("(.+?)(b)?$", 2),
    ("(a)|b", 1),
    ("(a|ab)(b?)", 2),
    ("(a*?)(b*)", 2),
    (r"^(?:\d{1,3}\.){3}", 0),
    ("(?i)ab|É", 0),
    ("(?i)[^a-b]", 0),
    (r"[\s\S]", 0),
    ("\x00", 0),
    # Java alone knows what these mean.
    ("(a*)*", 1),
    ("(a|b)+", 1),
    (r"\bA", 0),
    ("a*+a", 0),
    ("[a&&b]", 0),
    ("(?=a)", 0),
    (r"\p{L}", 0),
    ("[é]", 0),
    ("[😀]", 0),
)
REPLACEMENTS = ("", "x", "<$0>", "é$1-$0", "\n")


def random_patterns(rng: random.Random) -> list[tuple[str, int]]:
    """Patterns with a group that they have, or 0."""
    made = [_choice(rng, 2) for _ in range(COUNT)]
    return [(pattern, rng.randint(0, pattern.replace("(?:", "").count("("))) for pattern in made]


def _choice(rng: random.Random, depth: int) -> str:
    return "|".join(_sequence(rng, depth) for _ in range(rng.choice([1, 1, 1, 2, 3])))


def _sequence(rng: random.Random, depth: int) -> str:
    return "".join(_piece(rng, depth) for _ in range(rng.randint(0 if depth < 2 else 1, 4)))


def _piece(rng: random.Random, depth: int) -> str:
    kind = rng.random()
    if kind < 0.08:
        return rng.choice("^$")
    if kind < 0.35 and depth:
        return (
            f"({rng.choice(['', '?:'])}{_choice(rng, depth - 1)}){rng.choice(['', '', '', '?', '??', '{2}'])}"
        )
    made = rng.choice(SIGNS if kind < 0.65 else SETS)
    return made + (rng.choice(QUANTIFIERS) + rng.choice(["", "?"]) if rng.random() < 0.5 else "")


def random_text(rng: random.Random) -> str:
    """Short, so that patterns are found by chance, and often with the end of a line."""
    text = [rng.choice(ALPHABET[: rng.choice([3, 6, 99])]) for _ in range(rng.randint(0, 8))]
    for _ in range(rng.choice([0, 0, 1, 2])):
        text.insert(rng.choice([len(text), rng.randint(0, len(text))]), rng.choice(LINE_ENDS))
    return "".join(text)
