"""Like: patterns compiled to regular expressions that mean the same to RE2."""

import re

import pyarrow.compute as pc

from tidemill.pipeline.expressions.evaluation import Kernel
from tidemill.pipeline.expressions.strings import constant
from tidemill.pipeline.plan.expression import Call


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
            parts.append(_literal(escaped))
        else:
            parts.append({"%": ".*", "_": "."}.get(sign) or _literal(sign))
    return rf"(?s)\A{''.join(parts)}\z"


def _literal(sign: str) -> str:
    """A NUL ends a C string, and Python would leave it as it is."""
    return r"\x00" if sign == "\x00" else re.escape(sign)
