"""Random SQL: queries over small changing tables, each judged against Spark batch after every step.

    python -m property.random_sql --seconds 300         from tests/; prints the seed, and what it found
    python -m property.random_sql --seed 17 --rounds 1  the first round of that seed again

Only queries whose answer SQL determines are drawn: an order is total where it matters, floats are such that
their sums are exact. A query that Tidemill refuses is counted with the reason; one that Spark refuses is
counted and forgotten; one that raises in Spark must abort the step. The first difference is made small and
printed as a `Case` that a test can hold.

Words: a *piece* is SQL text with smaller pieces in it and a sort, the type of a value or the columns of a
relation; a *case* is some views and the appends of some steps; a *round* is a case that was drawn.

Read `tree` (pieces), `tables` (and their rows), `values`, `aggregates`, `windows`, `subqueries`,
`relations` (the grammar), `changes` (what happens to the tables), `case` (what is judged), `judge`,
`shrink`, `rounds`.
"""
