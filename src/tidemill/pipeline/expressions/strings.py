"""Text. Lengths and positions count Unicode code points; text is compared by its bytes."""

from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline.expressions.evaluation import Kernel, Value, array_of
from tidemill.pipeline.expressions.kernels import array, nulls, numbers
from tidemill.pipeline.expressions.points import cut, points
from tidemill.pipeline.plan.expression import Call, Literal


def constant(call: Call, position: int) -> str:
    argument = call.arguments[position]
    assert isinstance(argument, Literal)
    return str(argument.value.as_py())


def number(call: Call, position: int) -> int:
    argument = call.arguments[position]
    assert isinstance(argument, Literal)
    return int(argument.value.as_py())


def length(call: Call) -> Kernel:
    """Length: code points of text, bytes of binary."""
    text = call.arguments[0].type == pa.large_string()
    return lambda value: pc.utf8_length(value) if text else pc.binary_length(value)


def substring(call: Call) -> Kernel:
    """Substring(text, position, length): positions count from 1, negative ones from the end, 0 is as 1.

    What lies before the first code point counts for the length: `substring('abc', -5, 3)` is `'a'`.
    """
    if all(isinstance(argument, Literal) and argument.value.is_valid for argument in call.arguments[1:]):
        return _fixed_substring(number(call, 1), number(call, 2))

    def kernel(text: Value, position: Value, length: Value) -> pa.Array:
        missing = nulls(text, position, length)
        rows = max(len(value) for value in (text, position, length) if isinstance(value, pa.Array))
        text = array_of(text, rows)
        source = points(text)
        counts, place = source.counts(), numbers(position).astype(np.int64)
        start = np.where(place > 0, place - 1, np.where(place < 0, counts + place, 0))
        begin = np.clip(start, 0, counts)
        end = np.clip(start + numbers(length), begin, counts)
        return cut(text, source, begin, end, missing)

    return kernel


def _fixed_substring(position: int, length: int) -> Kernel:
    start = position - 1 if position > 0 else position
    if length <= 0:
        return lambda text, *_: pc.utf8_slice_codeunits(text, 0, 0)
    stop = None if start < 0 <= start + length else start + length
    return lambda text, *_: pc.utf8_slice_codeunits(text, start, stop)


def concat(call: Call) -> Kernel:
    empty = pa.scalar(b"" if call.type == pa.large_binary() else "", call.type)
    return lambda *parts: pc.binary_join_element_wise(*parts, empty)


def bit_length(value: Value) -> pa.Array:
    return pc.multiply(pc.binary_length(value), pa.scalar(8, pa.int64()))


def concat_ws(separator: Value, *parts: Value) -> pa.Array:
    """ConcatWs(separator, text, ...): NULL parts are left out, a NULL separator gives NULL."""
    # Arrow drops rows whose parts are all NULL from its answer, so these get an empty part.
    first, *others = parts
    absent = reduce(pc.and_, (pc.is_null(part) for part in parts))
    first = pc.if_else(absent, pa.scalar("", pa.large_string()), first)
    return pc.binary_join_element_wise(first, *others, separator, null_handling="skip")


def starts_with(call: Call) -> Kernel:
    start = constant(call, 1)
    return lambda text, _: pc.starts_with(text, start)


def ends_with(call: Call) -> Kernel:
    end = constant(call, 1)
    return lambda text, _: pc.ends_with(text, end)


def contains(call: Call) -> Kernel:
    part = constant(call, 1)
    return lambda text, _: pc.match_substring(text, part)


def replace(call: Call) -> Kernel:
    """StringReplace(text, search, replacement), the last two constants; searching nothing changes nothing."""
    search, replacement = constant(call, 1), constant(call, 2)
    if not search:
        return lambda text, *_: text
    return lambda text, *_: pc.replace_substring(text, search, replacement)


def substring_index(call: Call) -> Kernel:
    """SubstringIndex(text, delimiter, count), the last two constant: what is before so many delimiters, or
    after so many from the end; all of it if there are fewer."""
    delimiter, count = constant(call, 1), number(call, 2)
    kept = (0, count) if count > 0 else (1, None)
    between = pa.scalar(delimiter, pa.large_string())

    def kernel(text: pa.Array, *_: Value) -> pa.Array:
        parts = pc.split_pattern(text, delimiter, max_splits=abs(count), reverse=count < 0)
        enough = pc.greater(pc.list_value_length(parts), abs(count))
        return pc.if_else(enough, pc.binary_join(pc.list_slice(parts, *kept), between), text)

    return kernel


def delimits_clearly(call: Call) -> bool:
    """Spark counts delimiters that overlap each other."""
    delimiter, count = constant(call, 1), number(call, 2)
    overlaps = any(delimiter.startswith(delimiter[at:]) for at in range(1, len(delimiter)))
    return bool(delimiter) and not overlaps and 0 < abs(count) <= 1000


def trim(call: Call) -> Kernel:
    """StringTrim(text, [signs]): drops spaces, or any of the signs, which are constant."""
    return lambda text, *_: pc.utf8_trim(text, characters=_signs(call))


def trim_left(call: Call) -> Kernel:
    """StringTrimLeft, as StringTrim."""
    return lambda text, *_: pc.utf8_ltrim(text, characters=_signs(call))


def trim_right(call: Call) -> Kernel:
    """StringTrimRight, as StringTrim."""
    return lambda text, *_: pc.utf8_rtrim(text, characters=_signs(call))


def _signs(call: Call) -> str:
    return constant(call, 1) if len(call.arguments) > 1 else " "


def pad_left(call: Call) -> Kernel:
    """StringLPad(text, length, padding), the last two constant: cut to the length if longer."""
    return _padded(call, pc.utf8_lpad)


def pad_right(call: Call) -> Kernel:
    """StringRPad, as StringLPad."""
    return _padded(call, pc.utf8_rpad)


def pads_with_one_sign(call: Call) -> bool:
    return len(constant(call, 2)) == 1


def _padded(call: Call, pad: Kernel) -> Kernel:
    width, padding = max(0, number(call, 1)), constant(call, 2)
    return lambda text, *_: pc.utf8_slice_codeunits(pad(text, width, padding=padding), 0, width)


def find(call: Call) -> Kernel:
    """StringInstr(text, wanted), the latter constant: the first position, from 1; 0 if absent."""
    wanted = constant(call, 1)
    return lambda text, _: _position(text, wanted)


def locate(call: Call) -> Kernel:
    """StringLocate(wanted, text, start), the wanted constant and the start 1: as StringInstr."""
    wanted = constant(call, 0)
    return lambda _wanted, text, _start: _position(text, wanted)


def from_the_start(call: Call) -> bool:
    return number(call, 2) == 1


def _position(text: pa.Array, wanted: str) -> pa.Array:
    at = pc.find_substring(text, wanted)
    if not pc.all(pc.string_is_ascii(text)).as_py():
        at = _in_code_points(text, at)
    return pc.add(at.cast(pa.int32()), pa.scalar(1, pa.int32()))


def _in_code_points(text: pa.Array, at: pa.Array) -> pa.Array:
    """Offsets in bytes, as `find_substring` gives them, counted in code points; -1 stays."""
    source, found = points(text), numbers(at.cast(pa.int64()))
    counted = source.numbers_at(source.offsets[:-1] + np.maximum(found, 0)) - source.first[:-1]
    return array(np.where(found < 0, -1, counted), pa.int64(), nulls(at))
