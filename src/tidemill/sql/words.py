"""The words of a text of SQL, cut as Spark's own lexer cuts it, each with its place."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.pipeline.errors import Place, Refused

# A backslash at the end of a comment's line carries it on to the next.
GAP = re.compile(r"(?:\s|--(?:\\\n|[^\r\n])*)+")
STRING = re.compile(
    r"""r'[^']*'|r"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*\"""", re.DOTALL | re.IGNORECASE
)
NAME = re.compile(r"\w+|`(?:[^`]|``)*`")
COMMENT = re.compile(r"/\*(?!\+)|\*/")
"""Where one starts or ends; they nest. With a plus sign it is a hint, which is no comment."""


@dataclass(frozen=True, slots=True)
class Word:
    """A name, a string, or a sign; `end` is the offset after it."""

    start: int
    end: int
    spelled: str

    @property
    def name(self) -> str:
        """Without the quotes of a name."""
        return self.spelled[1:-1].replace("``", "`") if self.spelled[0] == "`" else self.spelled


def place_at(text: str, offset: int) -> Place:
    line_start = text.rfind("\n", 0, offset) + 1
    return Place(text.count("\n", 0, offset) + 1, offset - line_start + 1)


def split(text: str) -> Iterator["Words"]:
    """The words of each statement. Raises `Refused` for a string, name or comment that has no end."""
    part: list[Word] = []
    for word in cut(text):
        if word.spelled != ";":
            part.append(word)
        elif part:
            yield Words(text, part, word.start)
            part = []
    if part:
        yield Words(text, part, len(text))


def cut(text: str) -> Iterator[Word]:
    """The words of a text, without what stands between them."""
    at = 0
    while at < len(text):
        if found := GAP.match(text, at):
            at = found.end()
        elif text.startswith("/*", at) and not text.startswith("/*+", at):
            at = _after_comment(text, at)
        elif found := STRING.match(text, at) or NAME.match(text, at):
            yield Word(at, found.end(), found[0])
            at = found.end()
        elif text[at] in "'\"`":
            raise Refused(f"what starts here with {text[at]} has no end", place=place_at(text, at))
        else:
            yield Word(at, at + 1, text[at])
            at += 1


def _after_comment(text: str, start: int) -> int:
    depth = 0
    for mark in COMMENT.finditer(text, start):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    raise Refused("the comment that starts here has no end", place=place_at(text, start))


class Words:
    """The words of one statement, taken one by one."""

    def __init__(self, text: str, words: list[Word], end: int) -> None:
        self.text = text
        self.end = end
        self._words = words
        self._next = 0

    @property
    def offset(self) -> int:
        """Where the next word starts, or the statement ends."""
        return self._words[self._next].start if self._next < len(self._words) else self.end

    @property
    def place(self) -> Place:
        return place_at(self.text, self.offset)

    def slice(self, start: int, end: int) -> str:
        return self.text[start:end].strip()

    def peek(self, ahead: int = 0) -> str:
        """The next word in capitals; what is quoted keeps its quotes. Empty at the end."""
        at = self._next + ahead
        return self._words[at].spelled.upper() if at < len(self._words) else ""

    def take(self) -> Word:
        if not self.peek():
            raise self.refuse("the statement ends too early")
        self._next += 1
        return self._words[self._next - 1]

    def accept(self, *words: str) -> bool:
        """Take these words if they come next."""
        if any(self.peek(ahead) != word for ahead, word in enumerate(words)):
            return False
        self._next += len(words)
        return True

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            raise self.refuse(f"expected {' '.join(words)}, found {self.found}")

    @property
    def found(self) -> str:
        """The next word, for a message."""
        return self.peek() or "the end of the statement"

    def refuse(self, message: str) -> Refused:
        """An error at the next word."""
        return Refused(message, place=self.place)

    def name(self) -> str:
        """A name, without its quotes."""
        if not NAME.fullmatch(self.peek()):
            raise self.refuse(f"expected a name, found {self.found}")
        if self.peek(1) == ".":
            raise self.refuse("names have one part: leave out the catalog and the schema")
        return self.take().name

    def string(self) -> str:
        """A string, with its quotes."""
        if not STRING.fullmatch(self.peek()):
            raise self.refuse(f"expected a string, found {self.found}")
        return self.take().spelled

    def done(self) -> None:
        if self.peek():
            raise self.refuse(f"{self.peek()} is not understood here: leave it out")
