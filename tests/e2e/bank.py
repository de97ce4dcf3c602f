"""The bank that tells whether a system is internally consistent: transactions between ten accounts, views
to which several paths lead, and what each view has to be once so many transactions were taken.

Every transaction takes from one account what it gives to another, so the balances of all accounts add up to
nothing, at any moment. A system whose paths have seen different transactions shows another total. The
transactions come up to ten seconds late by their own time, as in the published test.
"""

import random
from collections.abc import Mapping
from itertools import accumulate, chain, pairwise, repeat

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

Views = Mapping[str, pa.Table]
"""Rows by view, in any order. Of a change, each with its `_weight`."""

Numbers = npt.NDArray[np.int64]

ACCOUNTS = 10
SEED = 42
MINUTE = np.datetime64("2021-01-01T00:00:00", "us")

TABLE = "transactions (id BIGINT, from_account INT, to_account INT, amount DOUBLE, ts TIMESTAMP{lateness})"

VIEWS = {
    "accepted_transactions": "SELECT id FROM transactions",
    "outer_join_with_time": """SELECT t1.id, t2.id AS other_id FROM transactions AS t1
        LEFT JOIN transactions AS t2 ON t1.id = t2.id AND t1.ts = t2.ts""",
    "outer_join_without_time": """SELECT t1.id, t2.id AS other_id FROM (SELECT id FROM transactions) AS t1
        LEFT JOIN (SELECT id FROM transactions) AS t2 ON t1.id = t2.id""",
    "credits": "SELECT to_account AS account, sum(amount) AS credits FROM transactions GROUP BY to_account",
    "debits": "SELECT from_account AS account, sum(amount) AS debits FROM transactions GROUP BY from_account",
    "balance": "SELECT account, credits - debits AS balance FROM credits JOIN debits USING (account)",
    "total": "SELECT sum(balance) AS total FROM balance",
    "credits2": """SELECT to_account AS account, sum(amount) AS credits, max(ts) AS ts
        FROM transactions GROUP BY to_account""",
    "debits2": """SELECT from_account AS account, sum(amount) AS debits, max(ts) AS ts
        FROM transactions GROUP BY from_account""",
    "balance2": """SELECT credits2.account, credits - debits AS balance, credits2.ts
        FROM credits2 JOIN debits2 ON credits2.account = debits2.account AND credits2.ts = debits2.ts""",
    "total2": "SELECT sum(balance) AS total FROM balance2",
}
OUTER_JOINS = ("outer_join_with_time", "outer_join_without_time")


def script(lateness: str = "") -> str:
    """The table and all views. `lateness` follows the type of the time column."""
    views = (f"CREATE VIEW {name} AS {query};" for name, query in VIEWS.items())
    return "\n".join([f"CREATE TABLE {TABLE.format(lateness=lateness)};", *views])


# Transactions


def original(count: int) -> pa.Table:
    """So many transactions of one minute at random, in the order in which they arrive: up to 10 s late."""
    draw = random.Random(SEED)
    drawn = [
        (draw.uniform(0, 10), draw.randint(0, ACCOUNTS - 1), draw.randint(0, ACCOUNTS - 1))
        for _ in range(count)
    ]
    delays, givers, takers = (np.array(values) for values in zip(*drawn, strict=True))
    ids = np.arange(count)
    return _transactions(ids, count, givers, takers).take(
        np.argsort(_second(ids, count) + delays, kind="stable")
    )


def simplified(count: int) -> pa.Table:
    """So many transactions of one minute in the order of their time, each from an account to the next."""
    ids = np.arange(count)
    return _transactions(ids, count, ids % ACCOUNTS, (ids + 1) % ACCOUNTS)


def _second(ids: Numbers, count: int) -> Numbers:
    return 60 * ids // count


def _transactions(ids: Numbers, count: int, givers: Numbers, takers: Numbers) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "from_account": pa.array(givers, pa.int32()),
            "to_account": pa.array(takers, pa.int32()),
            "amount": pa.array(np.ones(len(ids))),
            "ts": pa.array(MINUTE + _second(ids, count) * np.timedelta64(1_000_000, "us")).cast(
                pa.timestamp("us", "UTC")
            ),
        }
    )


def lots(count: int, steps: int, single: int) -> list[range]:
    """Which of so many transactions each step takes: the first ones one by one, then equal lots."""
    sizes = chain(repeat(1, single), repeat(-(-(count - single) // (steps - single)), steps - single))
    ends = accumulate(sizes, initial=0)
    return [range(start, min(stop, count)) for start, stop in pairwise(ends) if start < count]


# What the views have to be


def expected(taken: pa.Table) -> Views:
    """The rows of each view when exactly these transactions were taken, computed without Spark."""
    rows = taken.to_pandas()
    taker, giver = _sums(rows, "to_account", "credits"), _sums(rows, "from_account", "debits")
    balance, balance2 = _balance(taker, giver, ["account"]), _balance(taker, giver, ["account", "ts"])
    frames = {
        "accepted_transactions": rows[["id"]],
        **dict.fromkeys(OUTER_JOINS, rows[["id"]].assign(other_id=rows["id"])),
        "credits": taker[["account", "credits"]],
        "debits": giver[["account", "debits"]],
        "balance": balance[["account", "balance"]],
        "total": _total(balance),
        "credits2": taker,
        "debits2": giver,
        "balance2": balance2[["account", "balance", "ts"]],
        "total2": _total(balance2),
    }
    return {view: pa.Table.from_pandas(frame, preserve_index=False) for view, frame in frames.items()}


def _sums(rows: pd.DataFrame, account: str, name: str) -> pd.DataFrame:
    named = rows.rename(columns={account: "account", "amount": name})
    return named.groupby("account", as_index=False).agg({name: "sum", "ts": "max"})


def _balance(taker: pd.DataFrame, giver: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    both = taker.merge(giver, on=by)
    return both.assign(balance=both["credits"] - both["debits"])


def _total(balance: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"total": [balance["balance"].sum(min_count=1)]})


# Judging


def complaints(shown: Views, taken: pa.Table) -> list[str]:
    """What is wrong with views that are shown together, after exactly these transactions.

    That they are what they have to be would be all; the rest is what the test is about, by itself.
    """
    wanted = expected(taken)
    found = [f"{view} is not what it has to be" for view in shown if not same(shown[view], wanted[view])]
    accepted = shown["accepted_transactions"]["id"]
    if len(pc.unique(accepted)) != len(accepted):
        found.append("a transaction was accepted twice")
    found += [f"{view} has a NULL" for view in OUTER_JOINS if shown[view]["other_id"].null_count]
    if shows_all_accounts(taken) and shown["total"]["total"].to_pylist() != [0]:
        found.append(f"the total is {shown['total']['total'].to_pylist()}")
    return found


def change_complaints(changes: Views, before: Views, after: Views) -> list[str]:
    """What is wrong with the changes of a step that led from some rows of views to others."""
    return [
        f"the change of {view} does not lead there"
        for view, change in changes.items()
        if not same(plus(before[view], change), after[view])
    ]


def plus(rows: pa.Table, change: pa.Table) -> pa.Table:
    """The rows of which each is there once after the change; one that is not is there with its weight."""
    names = rows.column_names
    weighted = rows.append_column("_weight", pa.repeat(1, rows.num_rows)).cast(change.schema)
    sums = pa.concat_tables([weighted, change]).group_by(names).aggregate([("_weight", "sum")])
    sums = sums.filter(pc.not_equal(sums["_weight_sum"], 0))
    return sums.select(names) if pc.all(pc.equal(sums["_weight_sum"], 1)).as_py() is not False else sums


def shows_all_accounts(taken: pa.Table) -> bool:
    """Whether every account has given and taken: before that, balances lack some, and need not add up."""
    return all(len(pc.unique(taken[side])) == ACCOUNTS for side in ("from_account", "to_account"))


def same(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables have the same rows, each as often, in whatever order."""
    if one.column_names != other.column_names:
        return False
    return bool(ordered(one).equals(ordered(other.cast(one.schema))))


def ordered(rows: pa.Table) -> pa.Table:
    return rows.sort_by([(name, "ascending") for name in rows.column_names]).combine_chunks()
