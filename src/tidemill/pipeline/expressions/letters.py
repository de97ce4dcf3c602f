"""Signs put in place of signs: Upper and Lower, as the Unicode that Spark knows has it, and StringTranslate.

Arrow maps letter to letter, by a newer Unicode than Spark's. So letters that become several, and letters too
new for Spark, are mapped here, one code point at a time; text without them takes the short way. Lower also
looks at what is around a capital sigma.
"""

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline.expressions.evaluation import Kernel
from tidemill.pipeline.expressions.points import points
from tidemill.pipeline.expressions.regular import literal
from tidemill.pipeline.expressions.strings import constant
from tidemill.pipeline.plan.expression import Call

# fmt: off
TOO_NEW = (
    0x277, 0x27C, 0xAB4B, 0xAB4C, 0x1DF41, 0x1DF49, 0x1DF4B, 0x1DF4E, 0x1DF52, 0x1DF69, 0x1DF6B, 0x1DF6D,
    0x1DF6F, 0x1DF73, 0x1DF75, 0x1DF77, 0x1DF79, 0x1DF7B, 0x1DF7D, 0x1DF7F,
)
"""Small letters that have got a capital one since."""
TOO_NEW_CAPITALS = (
    0xA7DD, 0xA7E2, 0xAB6C, 0xAB6D, 0x1DF40, 0x1DF48, 0x1DF4A, 0x1DF4D, 0x1DF51, 0x1DF68, 0x1DF6A, 0x1DF6C,
    0x1DF6E, 0x1DF72, 0x1DF74, 0x1DF76, 0x1DF78, 0x1DF7A, 0x1DF7C, 0x1DF7E,
)
MARKS = (
    (0x897, 0x897), (0xECE, 0xECE), (0x1ACF, 0x1ADD), (0x1AE0, 0x1AEB), (0xA7F1, 0xA7F1), (0x10D4E, 0x10D4E),
    (0x10D69, 0x10D6D), (0x10D6F, 0x10D6F), (0x10EC5, 0x10EC5), (0x10EFA, 0x10EFF), (0x11241, 0x11241),
    (0x113BB, 0x113C0), (0x113CE, 0x113CE), (0x113D0, 0x113D0), (0x113D2, 0x113D2), (0x113E1, 0x113E2),
    (0x11B60, 0x11B60), (0x11B62, 0x11B64), (0x11B66, 0x11B66), (0x11DD9, 0x11DD9), (0x11F00, 0x11F01),
    (0x11F36, 0x11F3A), (0x11F40, 0x11F40), (0x11F42, 0x11F42), (0x11F5A, 0x11F5A), (0x13439, 0x13440),
    (0x13447, 0x13455), (0x1611E, 0x16129), (0x1612D, 0x1612F), (0x16D40, 0x16D42), (0x16D6B, 0x16D6C),
    (0x16FF2, 0x16FF3), (0x1E030, 0x1E06D), (0x1E08F, 0x1E08F), (0x1E4EB, 0x1E4EF), (0x1E5EE, 0x1E5EF),
    (0x1E6E3, 0x1E6E3), (0x1E6E6, 0x1E6E6), (0x1E6EE, 0x1E6EF), (0x1E6F5, 0x1E6F5), (0x1E6FF, 0x1E6FF),
)
"""From and to: what stands within words, but is newer than the Unicode of Python 3.11."""
CASED = (
    (0x1C89, 0x1C8A), (0xA7CB, 0xA7CF), (0xA7D2, 0xA7D2), (0xA7D4, 0xA7D4), (0xA7DA, 0xA7DC),
    (0x10D50, 0x10D65), (0x10D70, 0x10D85), (0x16EA0, 0x16EB8), (0x16EBB, 0x16ED3), (0x1DF25, 0x1DF2A),
)
"""Letters with a case that are newer."""
NEITHER = ((0x295, 0x295), (0x1171E, 0x1171E))
"""What has become neither since."""
# fmt: on
LAST_OF_SEVERAL = 0xFB17
SIGMA, FINAL_SIGMA = "Σ", "ς"


@cache
def exceptions() -> dict[str, str]:
    """The letters that Arrow maps to other capitals, with what Spark makes of them."""
    letters = map(chr, range(0xDF, LAST_OF_SEVERAL + 1))
    several = {letter: letter.upper() for letter in letters if len(letter.upper()) > 1}
    return several | {chr(code): chr(code) for code in TOO_NEW}


@cache
def capital_exceptions() -> dict[str, str]:
    """The letters that Arrow maps to other small ones, with what Spark makes of them."""
    return {"İ": "i̇"} | {chr(code): chr(code) for code in TOO_NEW_CAPITALS}


def upper(text: pa.Array) -> pa.Array:
    if pc.all(pc.string_is_ascii(text)).as_py():
        return pc.ascii_upper(text)
    return _mapped(text, pc.utf8_upper, exceptions())


def lower(text: pa.Array) -> pa.Array:
    if pc.all(pc.string_is_ascii(text)).as_py():
        return pc.ascii_lower(text)
    sigmas = pc.match_substring(text, SIGMA)
    if pc.any(sigmas).as_py():
        ended = [_with_final_sigmas(one) for one in text.filter(sigmas).to_pylist()]
        text = pc.replace_with_mask(text, sigmas, pa.array(ended, text.type))
    return _mapped(text, pc.utf8_lower, capital_exceptions())


def translate(call: Call) -> Kernel:
    """StringTranslate(text, signs, others), the last two constant: each sign becomes the other at its place,
    the first if it has several; those that have none are dropped."""
    signs, others = constant(call, 1), constant(call, 2)
    images = {sign: others[at : at + 1] for at, sign in reversed(list(enumerate(signs)))}
    return lambda text, *_: _mapped(text, lambda same: same, images)


def has_no_nul(call: Call) -> bool:
    """In place of a sign, Spark takes a NUL for nothing."""
    return "\x00" not in constant(call, 2)


def _mapped(
    text: pa.Array, simple: Callable[[pa.Array], pa.Array], exceptions: Mapping[str, str]
) -> pa.Array:
    if not pc.any(pc.match_substring_regex(text, "|".join(map(literal, exceptions)))).as_py():
        return simple(text)
    return _by_code_point(text, simple, exceptions)


def _by_code_point(
    text: pa.Array, simple: Callable[[pa.Array], pa.Array], exceptions: Mapping[str, str]
) -> pa.Array:
    """Maps each distinct code point once, then takes the image of each in turn: rows are ranges of these."""
    source = points(text)
    codes = np.frombuffer(source.bytes.tobytes().decode().encode("utf-32-le"), np.uint32)
    distinct, numbers = np.unique(codes, return_inverse=True)
    letters = [chr(code) for code in distinct]
    mapped = simple(pa.array(letters, text.type)).to_pylist()
    images = [exceptions.get(letter, image) for letter, image in zip(letters, mapped, strict=True)]
    taken = pa.array(images, text.type).take(pa.array(numbers))
    _, offsets, data = taken.buffers()
    bounds = np.frombuffer(offsets, np.int64, len(taken) + 1)[source.first]
    valid = text.is_valid().buffers()[1] if text.null_count else None
    return pa.Array.from_buffers(text.type, len(text), [valid, pa.py_buffer(bounds), data])


def _with_final_sigmas(text: str) -> str:
    """The text, a capital sigma at the end of a word replaced by the small one that stands there."""
    signs = zip(text, text.translate(_stand_ins()).lower(), strict=True)
    return "".join(FINAL_SIGMA if small == FINAL_SIGMA else sign for sign, small in signs)


@cache
def _stand_ins() -> dict[int, str]:
    """For what Python may see otherwise than Spark, or make several letters of, a sign that both know."""
    known = ((MARKS, "'"), (CASED, "A"), (NEITHER, " "), (((0x130, 0x130),), "A"))
    return {code: sign for ranges, sign in known for first, last in ranges for code in range(first, last + 1)}
