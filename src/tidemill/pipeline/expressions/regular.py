r"""The part of Java's regular expressions that RE2 and Python can follow, and its translation.

All three prefer the leftmost match and, among those, the one that the pattern names first. They differ in
what a sign like `.` or `\s` stands for, in where a line ends, and in repeating what may be empty. So the
pattern is read strictly, by this grammar, and sets of code points are written out:

    choice     := sequence ("|" sequence)*
    sequence   := (piece (quantifier "?"?)?)*
    piece      := literal | escape | "." | "[" "^"? member+ "]" | "^" | "$" | "(" "?:"? choice ")"
    quantifier := "*" | "+" | "?" | "{n}" | "{n,}" | "{n,m}"

`(?i)` may stand in front. What may be empty cannot be quantified. Of a group there may not be any number,
as Java would run out of stack, and if it captures, only one or none. Whatever else there is in a pattern,
Java alone knows; `translate` then gives None.
"""

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass

ASCII = frozenset(range(128))
BEYOND = 128
"""Stands, in a set, for all code points that are not ASCII."""
NOT_ASCII = "\x80-\U0010ffff"
DIGITS = frozenset(b"0123456789")
WORD = DIGITS | frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")
SPACE = frozenset(b" \t\n\x0b\f\r")
SETS = {"d": DIGITS, "w": WORD, "s": SPACE}
CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
SPECIAL = frozenset("\\^$.|?*+()[]{}")
ANY = "[^\n\r\x85\u2028\u2029]"
LINE_END = "(?:\r\n|[\n\r\x85\u2028\u2029])"
END = r"\z"
"""What `$` is to RE2 in text that does not end with the end of a line, as Java sees ends of lines."""
END_OF_LINES = rf"(?={LINE_END}?\Z)(?<!\r(?=\n))"
"""What `$` is to Python in any text: the end, or before the end of the last line."""
BOUNDS = re.compile(r"\{([0-9]{1,3})(,?)([0-9]{0,3})\}")


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a pattern, translated."""

    text: str
    empty: bool = False
    """Whether it may match nothing."""
    single: bool = False
    """Whether it is always one code point."""
    captures: bool = False


class Unknown(Exception):
    """The pattern is not in the grammar."""


@dataclass(frozen=True, slots=True)
class Regular:
    """A translated pattern."""

    text: str
    groups: int
    empty: bool
    """Whether it may match nothing."""
    ends: bool
    """Whether there is a `$` in it."""


def translate(pattern: str, end: str = END, wanted: Container[int] = ()) -> Regular | None:
    """The pattern for RE2, or with another `end` for Python; None if it is not in the grammar.

    The wanted groups capture, 0 being all of it, each under a name; the others do not.
    """
    parser = _Parser(pattern, end, wanted)
    try:
        whole = parser.parse()
    except Unknown:
        return None
    text = f"(?P<g0>{whole.text})" if 0 in wanted else whole.text
    return Regular(text, parser.groups, whole.empty, parser.ends)


class _Parser:
    def __init__(self, pattern: str, end: str, wanted: Container[int]) -> None:
        self._folds = pattern.startswith("(?i)")
        self._signs = pattern
        self._place = len("(?i)") if self._folds else 0
        self._end = end
        self._wanted = wanted
        self.groups = 0
        self.ends = False

    def parse(self) -> Piece:
        whole = self._choice()
        if self._place < len(self._signs):
            raise Unknown
        return whole

    def _next(self) -> str:
        """The next sign, taken."""
        if self._place == len(self._signs):
            raise Unknown
        self._place += 1
        return self._signs[self._place - 1]

    def _at(self, text: str) -> bool:
        return self._signs.startswith(text, self._place)

    def _take(self, text: str) -> bool:
        """Whether that comes next; if so it is taken."""
        found = self._at(text)
        self._place += len(text) if found else 0
        return found

    def _choice(self) -> Piece:
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        return Piece(
            "|".join(option.text for option in options),
            any(option.empty for option in options),
            captures=any(option.captures for option in options),
        )

    def _sequence(self) -> Piece:
        pieces: list[Piece] = []
        while self._place < len(self._signs) and not self._at("|") and not self._at(")"):
            pieces.append(self._quantified(self._piece()))
        return Piece(
            "".join(piece.text for piece in pieces),
            all(piece.empty for piece in pieces),
            captures=any(piece.captures for piece in pieces),
        )

    def _quantified(self, piece: Piece) -> Piece:
        start = self._place
        found = BOUNDS.match(self._signs, start)
        if found:
            self._place = found.end()
            least = int(found[1])
            most = int(found[3]) if found[3] else (None if found[2] else least)
        elif self._take("*"):
            least, most = 0, None
        elif self._take("+"):
            least, most = 1, None
        elif self._take("?"):
            least, most = 0, 1
        else:
            return piece
        self._take("?")
        bounded = most is not None and 0 < most >= least and (most == 1 or not piece.captures)
        if piece.empty or not (bounded or (most is None and piece.single)):
            raise Unknown
        quantifier = self._signs[start : self._place]
        return Piece(piece.text + quantifier, least == 0, captures=piece.captures)

    def _piece(self) -> Piece:
        sign = self._next()
        if sign == "(":
            return self._grouped()
        if sign == "[":
            return Piece(self._set(), single=True)
        if sign == "\\":
            escaped = self._escaped()
            return Piece(self._literal(escaped) if isinstance(escaped, str) else _set(escaped), single=True)
        if sign == "^":
            return Piece(r"\A", empty=True)
        if sign == "$":
            self.ends = True
            return Piece(self._end, empty=True)
        if sign == ".":
            return Piece(ANY, single=True)
        if sign in SPECIAL or not _is_simple(sign):
            raise Unknown
        return Piece(self._literal(sign), single=True)

    def _grouped(self) -> Piece:
        captures = not self._take("?:")
        if captures and self._at("?"):
            raise Unknown
        self.groups += captures
        wanted = captures and self.groups in self._wanted
        opening = f"(?P<g{self.groups}>" if wanted else "(?:"
        inner = self._choice()
        if not self._take(")"):
            raise Unknown
        return Piece(f"{opening}{inner.text})", inner.empty, captures=captures or inner.captures)

    def _escaped(self) -> str | frozenset[int]:
        """What a backslash and the next sign stand for: a sign, or a set of them."""
        sign = self._next()
        if sign.lower() in SETS:
            return SETS[sign] if sign in SETS else _complement(SETS[sign.lower()])
        if sign in CONTROLS:
            return CONTROLS[sign]
        if sign.isalnum() or not " " <= sign <= "~":
            raise Unknown
        return sign

    def _set(self) -> str:
        negated = self._take("^")
        members: frozenset[int] = frozenset()
        first = self._place
        if self._at("]"):
            raise Unknown
        while not self._take("]"):
            members |= self._member(self._place == first)
        if self._folds:
            members |= _both_cases(members)
        return _set(_complement(members) if negated else members)

    def _member(self, is_first: bool) -> frozenset[int]:
        sign = self._next()
        if sign in "[^" or (sign == "&" and self._at("&")) or sign >= "\x80":
            raise Unknown
        if sign == "-" and not is_first and not self._at("]"):
            raise Unknown
        low = self._escaped() if sign == "\\" else sign
        if not isinstance(low, str):
            return low
        if not self._at("-") or self._at("-]"):
            return frozenset({ord(low)})
        self._next()
        high = self._next()
        if not (low.isalnum() and high.isalnum() and low <= high < "\x80"):
            raise Unknown
        return frozenset(range(ord(low), ord(high) + 1))

    def _literal(self, sign: str) -> str:
        if self._folds and sign.isascii() and sign.isalpha():
            return _set(_both_cases({ord(sign)}))
        return literal(sign)


def _complement(members: frozenset[int]) -> frozenset[int]:
    return (ASCII | {BEYOND}) - members


def _both_cases(members: Iterable[int]) -> frozenset[int]:
    signs = [chr(code) for code in members if code < BEYOND]
    return frozenset(ord(case) for sign in signs for case in (sign.lower(), sign.upper()))


def _set(members: frozenset[int]) -> str:
    if not members:
        raise Unknown
    codes = "".join(f"\\x{code:02x}" for code in sorted(members - {BEYOND}))
    return f"[{codes}{NOT_ASCII if BEYOND in members else ''}]"


def _is_simple(sign: str) -> bool:
    """Whether Java holds it in one unit of UTF-16."""
    return sign <= "\uffff" and not "\ud800" <= sign <= "\udfff"


def literal(sign: str) -> str:
    """A NUL ends a C string, and Python would leave it as it is."""
    return r"\x00" if sign == "\x00" else re.escape(sign)
