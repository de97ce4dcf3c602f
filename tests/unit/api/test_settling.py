"""What futures are given, whatever comes back from a node."""

import concurrent.futures
import sys
from typing import Any

from tidemill.api.line import Ended
from tidemill.api.settling import Settling
from tidemill.tasks.call import TaskFailed, returned


class Leaves:
    """Ends whoever reads it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return sys.exit, (3,)


def test_a_result_that_ends_its_reader_fails_and_the_others_come() -> None:
    settling = Settling()
    leaving, other = concurrent.futures.Future[Any](), concurrent.futures.Future[Any]()
    settling.put(leaving, Ended(1, None, returned(Leaves())))
    settling.put(other, Ended(1, None, returned(42)))
    settling.stop()

    assert isinstance(leaving.exception(0), TaskFailed)
    assert other.result(0) == 42
