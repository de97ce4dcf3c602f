"""Nexmark: people, the auctions they open and the bids they make, and 24 queries about them.

The rows follow the published proportions (1 : 3 : 46) and ratios, and the queries are the published ones in
Spark SQL, one file each; what is said differently, or left open by the published text, is noted in the file.

Words: an *event* is one person, auction or bid, by its number from 0 on; a *range* of events is what one
append or one file has.

Read `generator` (rows by range), `chance` (random values by number), `catalog` (tables and queries as text),
`tables.sql` and `queries/`. It knows nothing of pipelines, and of Spark only the dialect.
"""
