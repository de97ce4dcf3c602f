"""Patterns, all of them constant: Like, and Java's regular expressions where RE2 can follow them (`regular`).

Text that ends with the end of a line is rare, and RE2 cannot look ahead. So for a pattern with `$` such rows
are tried one by one.
"""

import re
from collections.abc import Callable, Container
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline.expressions import regular
from tidemill.pipeline.expressions.evaluation import Kernel
from tidemill.pipeline.expressions.kernels import null_where
from tidemill.pipeline.expressions.regular import Regular
from tidemill.pipeline.expressions.strings import constant, number
from tidemill.pipeline.plan.expression import Call

TEXT = pa.large_string()
REPLACEMENT = re.compile(r"(?s)(?:[^\\$]|\$[0-9](?![0-9]))*")
GROUP = re.compile(r"\$([0-9])")
LAST_LINE_END = rf"{regular.LINE_END}\z"


def like(call: Call) -> Kernel:
    """Like(text, pattern), the pattern constant. Options: `escape`, one character."""
    expression = _regular_expression(constant(call, 1), call.options["escape"])
    assert expression is not None
    return lambda text, _: pc.match_substring_regex(text, expression)


def is_well_formed(call: Call) -> bool:
    """Spark raises for a pattern that escapes nothing, or anything but `%`, `_` and the escape itself."""
    return _regular_expression(constant(call, 1), call.options["escape"]) is not None


def _regular_expression(pattern: str, escape: str) -> str | None:
    parts, signs = [], iter(pattern)
    for sign in signs:
        if sign == escape:
            escaped = next(signs, None)
            if escaped not in ("%", "_", escape):
                return None
            parts.append(regular.literal(escaped))
        else:
            parts.append({"%": ".*", "_": "."}.get(sign) or regular.literal(sign))
    return rf"(?s)\A{''.join(parts)}\z"


def is_followed(call: Call) -> bool:
    """Whether RE2 finds what Java finds. RegExpExtract must want a group that there is; what RegExpReplace
    replaces is never empty, and is replaced by text that is plain but for groups."""
    found = _translated(call)
    if found is None or not _compiles(found.text):
        return False
    if call.function == "RegExpExtract":
        return 0 <= number(call, 2) <= found.groups
    if call.function == "RegExpReplace":
        known = REPLACEMENT.fullmatch(constant(call, 2)) is not None
        groups = map(int, GROUP.findall(constant(call, 2)))
        return number(call, 3) == 1 and known and not found.empty and max(groups, default=0) <= found.groups
    return True


def _translated(call: Call, end: str = regular.END) -> Regular | None:
    wanted: Container[int] = ()
    if call.function == "RegExpExtract":
        wanted = (number(call, 2),)
    elif call.function == "RegExpReplace":
        wanted = range(1, 1000)
    return regular.translate(constant(call, 1), end, wanted)


def _compiles(expression: str) -> bool:
    """RE2 refuses patterns that would become too large."""
    try:
        pc.match_substring_regex(pa.array([""], TEXT), expression)
    except pa.ArrowInvalid:
        return False
    return True


def rlike(call: Call) -> Kernel:
    """RLike(text, pattern): whether it is found anywhere in the text."""
    found, by_row = _both(call)

    def kernel(text: pa.Array, *_: object) -> pa.Array:
        matched = pc.match_substring_regex(text, found.text)
        return _mended(matched, text, lambda one: by_row.search(one) is not None) if found.ends else matched

    return kernel


def regexp_extract(call: Call) -> Kernel:
    """RegExpExtract(text, pattern, group): empty if nothing is found, or the group has no part in it."""
    found, by_row = _both(call)

    def extract(one: str) -> str:
        match = by_row.search(one)
        return (match and match[1]) or ""

    def kernel(text: pa.Array, *_: object) -> pa.Array:
        parts = pc.struct_field(pc.extract_regex(text, found.text), 0).cast(TEXT).fill_null("")
        if text.null_count:
            parts = null_where(text.is_null(), parts)
        return _mended(parts, text, extract) if found.ends else parts

    return kernel


def regexp_replace(call: Call) -> Kernel:
    """RegExpReplace(text, pattern, replacement, 1): all that is found is replaced, `$1` being a group."""
    found, by_row = _both(call)
    for_re2, for_python = GROUP.sub(r"\\\1", constant(call, 2)), GROUP.sub(r"\\g<\1>", constant(call, 2))

    def kernel(text: pa.Array, *_: object) -> pa.Array:
        made = pc.replace_substring_regex(text, found.text, for_re2)
        return _mended(made, text, lambda one: by_row.sub(for_python, one)) if found.ends else made

    return kernel


def _both(call: Call) -> tuple[Regular, re.Pattern[str]]:
    """The pattern for RE2 and for Python."""
    found, again = _translated(call), _translated(call, regular.END_OF_LINES)
    assert found is not None
    assert again is not None
    return found, re.compile(again.text)


def _mended(answers: pa.Array, text: pa.Array, answer: Callable[[str], Any]) -> pa.Array:
    """The answers, those for text that ends with the end of a line given anew."""
    ends = pc.match_substring_regex(text, LAST_LINE_END)
    if not pc.any(ends).as_py():
        return answers
    anew = [answer(one) for one in text.filter(ends).to_pylist()]
    return pc.replace_with_mask(answers, ends, pa.array(anew, answers.type))
