"""Upper: the case of letters, as the Unicode that Spark knows has it.

Arrow maps letter to letter, by a newer Unicode than Spark's. So letters that become several, and letters too
new for Spark, are mapped here, one code point at a time; text without them takes the short way.
"""

from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline.expressions.points import points

# fmt: off
TOO_NEW = (
    0x277, 0x27C, 0xAB4B, 0xAB4C, 0x1DF41, 0x1DF49, 0x1DF4B, 0x1DF4E, 0x1DF52, 0x1DF69, 0x1DF6B, 0x1DF6D,
    0x1DF6F, 0x1DF73, 0x1DF75, 0x1DF77, 0x1DF79, 0x1DF7B, 0x1DF7D, 0x1DF7F,
)
# fmt: on
LAST_OF_SEVERAL = 0xFB17


@cache
def exceptions() -> dict[str, str]:
    """The letters that Arrow maps differently, with what Spark makes of them."""
    letters = map(chr, range(0xDF, LAST_OF_SEVERAL + 1))
    several = {letter: letter.upper() for letter in letters if len(letter.upper()) > 1}
    return several | {chr(code): chr(code) for code in TOO_NEW}


@cache
def _exceptional() -> str:
    return f"[{''.join(exceptions())}]"


def upper(text: pa.Array) -> pa.Array:
    if pc.all(pc.string_is_ascii(text)).as_py():
        return pc.ascii_upper(text)
    if not pc.any(pc.match_substring_regex(text, _exceptional())).as_py():
        return pc.utf8_upper(text)
    return _by_code_point(text)


def _by_code_point(text: pa.Array) -> pa.Array:
    """Maps each distinct code point once, then takes the image of each in turn: rows are ranges of these."""
    source = points(text)
    codes = np.frombuffer(source.bytes.tobytes().decode().encode("utf-32-le"), np.uint32)
    distinct, numbers = np.unique(codes, return_inverse=True)
    letters = [chr(code) for code in distinct]
    simple = pc.utf8_upper(pa.array(letters, text.type)).to_pylist()
    images = [exceptions().get(letter, image) for letter, image in zip(letters, simple, strict=True)]
    mapped = pa.array(images, text.type).take(pa.array(numbers))
    _, offsets, data = mapped.buffers()
    bounds = np.frombuffer(offsets, np.int64, len(mapped) + 1)[source.first]
    valid = text.is_valid().buffers()[1] if text.null_count else None
    return pa.Array.from_buffers(text.type, len(text), [valid, pa.py_buffer(bounds), data])
