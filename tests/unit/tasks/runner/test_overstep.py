"""When a job takes more than it may."""

from tidemill.tasks.runner import Limits
from tidemill.tasks.runner.overstep import Stop, overstepped

LIMITS = Limits(timeout_s=5, memory_mb=512, output_mb=10)


def test_a_job_within_its_limits_goes_on() -> None:
    assert overstepped(LIMITS, 4.9, 10_000_000, 512) is None


def test_each_limit_is_told_with_its_figure() -> None:
    assert overstepped(LIMITS, 5, 0, 0) == Stop("timeout", "ran longer than 5 s")
    assert overstepped(LIMITS, 1, 0, 812) == Stop(
        "memory", "used 812 MB, more than the 512 MB that its queue allows"
    )
    assert overstepped(LIMITS, 1, 41_000_000, 0) == Stop(
        "output", "wrote 41 MB, more than the 10 MB that its queue allows"
    )


def test_without_limits_only_output_is_bounded() -> None:
    assert overstepped(Limits(), 1e9, 256_000_000, 10**9) is None
    assert overstepped(Limits(), 1e9, 257_000_000, 10**9) is not None


def test_memory_that_nobody_measured_is_not_judged() -> None:
    assert overstepped(LIMITS, 1, 0, None) is None
