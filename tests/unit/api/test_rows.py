"""What is read is shown in a line, however many rows it has."""

from typing import NoReturn

import pyarrow as pa

from tidemill.api.rows import Rows
from tidemill.api.verify import Verdict


def unread() -> NoReturn:
    raise AssertionError("they were read")


def test_rows_are_not_read_to_be_shown() -> None:
    schema = pa.schema([("auction", pa.int64()), ("price", pa.int64())])

    assert repr(Rows(4, schema, unread, unread)) == "Rows(step=4, columns=['auction', 'price'])"


def test_a_verdict_is_shown_without_the_rows_that_differ() -> None:
    rows = pa.table({"price": range(1000)})
    verdict = Verdict("top", 4, 7, rows, rows.slice(0, 0), 0.1, 2.0)

    assert repr(verdict) == f"<Verdict: {verdict}>"
    assert "view top at step 4: 7 rows, 1,000 missing, 0 too many" in repr(verdict)
