"""Cast among dates, timestamps and numbers. Options: `mode`, and `zone`, of which only UTC is proved."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.expressions.casts import cast_overflow
from tidemill.pipeline.expressions.dates import DAY_US
from tidemill.pipeline.expressions.evaluation import Kernel, Value
from tidemill.pipeline.expressions.kernels import (
    Numbers,
    abort,
    array,
    dtype,
    nulls,
    numbers,
    refuse_or_null,
)
from tidemill.pipeline.plan.expression import Call

LAST_DAY = (2**63 - 1) // DAY_US


def _convert(call: Call, convert: Callable[[Numbers], Numbers]) -> Kernel:
    return lambda value: array(convert(numbers(value)), call.type, nulls(value))


def _no_timestamp() -> StepAborted:
    return abort("DATETIME_OVERFLOW", "The date has no timestamp.")


def date_to_timestamp(call: Call) -> Kernel:
    """Midnight; a date too far off raises in LEGACY mode too."""
    mode = "TRY" if call.options["mode"] == "TRY" else "ANSI"

    def kernel(value: Value) -> pa.Array:
        days, missing = numbers(value).astype(np.int64), nulls(value)
        wrong = (days > LAST_DAY) | (days < -LAST_DAY - 1)
        missing = refuse_or_null(mode, wrong, missing, _no_timestamp)
        return array(days * DAY_US, call.type, missing)

    return kernel


def timestamp_to_date(call: Call) -> Kernel:
    return _convert(call, lambda time: (time // DAY_US).astype(np.int32))


def timestamp_to_timestamp(call: Call) -> Kernel:
    """With a zone or without: in UTC the same number."""
    return _convert(call, lambda time: time)


def timestamp_to_integer(call: Call) -> Kernel:
    """Seconds since 1970, rounded down; what does not fit is NULL in LEGACY mode."""
    mode, target = call.options["mode"], dtype(call.type)

    def kernel(value: Value) -> pa.Array:
        whole, missing = numbers(value) // 1_000_000, nulls(value)
        missing = refuse_or_null(mode, whole != whole.astype(target), missing, cast_overflow)
        return array(whole.astype(target), call.type, missing)

    return kernel


def timestamp_to_double(call: Call) -> Kernel:
    return _convert(call, lambda time: time.astype(np.float64) / 1_000_000.0)


def integer_to_timestamp(call: Call) -> Kernel:
    """Seconds since 1970; a time too far off becomes the last or the first."""
    limit = (2**63 - 1) // 1_000_000

    def convert(given: Numbers) -> Numbers:
        seconds = given.astype(np.int64)
        inside = np.clip(seconds, -limit, limit) * 1_000_000
        return np.where(seconds > limit, 2**63 - 1, np.where(seconds < -limit, -(2**63), inside))

    return _convert(call, convert)
