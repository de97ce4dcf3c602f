"""What of the user's text a plan comes from, by what Spark remembers of its expressions."""

import re
from collections.abc import Iterator

from py4j.java_gateway import JavaObject

from tidemill.pipeline.errors import Place
from tidemill.sql.catalyst.expression import items, kind_of, place_of
from tidemill.sql.relation import Origin
from tidemill.sql.words import place_at

CLAUSE = re.compile(r"(SELECT|FROM|WITH|VALUES|TABLE|WHERE|GROUP|HAVING|ORDER|LIMIT)\b", re.IGNORECASE)
"""What the optimizer makes has the origin of the plan that it was at work on: a query, or a clause."""


def written(node: JavaObject) -> str:
    """The words that a plan or expression was made of; empty if that is not known."""
    origin = node.origin()
    text, start, stop = origin.sqlText(), origin.startIndex(), origin.stopIndex()
    if text.isEmpty() or start.isEmpty() or stop.isEmpty():
        return ""
    return " ".join(str(text.get())[start.get() : stop.get() + 1].split())


def place_of_word(word: str, *nodes: JavaObject) -> Place | None:
    """Where the word stands first in the text that one of the plans or expressions comes from, if it does."""
    for node in nodes:
        text = node.origin().sqlText()
        found = None if text.isEmpty() else re.search(rf"\b{word}\b", str(text.get()), re.IGNORECASE)
        if found:
            return place_at(found.string, found.start())
    return None


def origin_of(plan: JavaObject) -> Origin:
    """The words of what the plan computes; if that is nothing, those of the plan itself."""
    found = words_of(*items(plan.expressions()))
    if found.text or kind_of(plan) == "Project":
        return found
    return Origin(written(plan), place_of(plan))


def words_of(*nodes: JavaObject) -> Origin:
    """The words of expressions; what is not known is told as Spark spells it. Bare columns say nothing."""
    found = dict[str, Place | None]()
    for node in nodes:
        for text, place in _texts(node):
            found.setdefault(text, place)
    return Origin(", ".join(found), next(filter(None, found.values()), None))


def _texts(node: JavaObject) -> Iterator[tuple[str, Place | None]]:
    """The words of an expression, or of the parts of a condition that the optimizer has put together."""
    kind = kind_of(node)
    if kind == "AttributeReference":
        return
    text = written(node)
    if text and not CLAUSE.match(text):
        yield text, place_of(node)
    elif kind in {"Alias", "SortOrder"}:
        yield from _texts(node.child())
    elif kind == "And":
        yield from _texts(node.left())
        yield from _texts(node.right())
    elif kind != "IsNotNull":  # which the optimizer adds wherever something is compared
        yield str(node.sql()), None
