"""The demo: a pipeline of auctions, or of anybody's SQL, that is fed, shown and checked while one watches.

It promises that what it shows is the product at work: Spark in a child process keeps the views, and every so
often computes one of them from scratch, to compare the answer and the time.

Words: an *event* brings one row or more; a *course* is the events of all tables; a row's *life* says when it
changes and goes; *figures* are what there is to see.

Read `lives` (rows that come, change and go, on `chance`), `auctions` and `inventing` (what is in them),
`show` (the pipeline at work), `stage` and `driver` (how it comes to be, and in which process), `child` (that
process as the node has it), `figures` and `screen`.
"""
