"""Functions of the moment: the optimizer makes constants of them, so one looks before it does."""

import re

from pyspark.sql import DataFrame

from tidemill.pipeline.errors import Refused
from tidemill.sql.catalyst.expression import CHANGING, expressions_of, kind_of, place_of

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
    """Raises `Refused` if the query asks for the time of the step or, maybe over constants, for chance."""
    changing = {**CLOCKS, **CHANGING}
    plan = frame._jdf.queryExecution().analyzed()
    for name in _CLASS.findall(str(plan.toJSON())):
        if name in changing:
            places = (place_of(node) for node in expressions_of(plan) if kind_of(node) == name)
            raise Refused(
                f"{next(places, '')}{changing[name]} gives another value each time: "
                "compute it before the rows are inserted"
            )
