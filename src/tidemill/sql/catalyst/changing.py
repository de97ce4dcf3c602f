"""Functions of the moment: the optimizer makes constants of them, so one looks before it does."""

import re

from pyspark.sql import DataFrame

from tidemill.pipeline.errors import Refused

CLOCKS = {
    "CurrentTimestamp": "current_timestamp()",
    "Now": "now()",
    "CurrentDate": "current_date()",
    "CurrentTime": "current_time()",
    "LocalTimestamp": "localtimestamp()",
    "CurrentUser": "current_user()",
    "CurrentDatabase": "current_database()",
    "CurrentCatalog": "current_catalog()",
}
_CLASS = re.compile(r'"class":"org\.apache\.spark\.sql\.catalyst\.expressions\.(\w+)"')


def refuse_changing(frame: DataFrame) -> None:
    """Raises `Refused` if the query asks for the time of the step or the like."""
    text = str(frame._jdf.queryExecution().analyzed().toJSON())
    for name in _CLASS.findall(text):
        if name in CLOCKS:
            raise Refused(
                f"{CLOCKS[name]} gives another value each time: compute it before the rows are inserted"
            )
