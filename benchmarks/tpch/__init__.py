"""TPC-H as views that are kept while all of its tables change.

A *refresh* is one change of all tables: new orders and deleted ones with their lines, as the specification's
two refresh functions have them, and beyond these rows of the other tables that come, go and change.

Read `views` (tables.sql and queries/*.sql with their parameters), `data` (the rows, from a generator),
`refresh` (what a table holds by now, and changes to it). It knows nothing of Spark and of pipelines.
"""
