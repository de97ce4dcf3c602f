"""SQL: from Spark SQL or a DataFrame to the nodes of a pipeline's circuit, or the name of what is refused.

Spark reads the query, so its meaning is Spark's own; what Spark made of it is lowered to our operators.

Words: a *statement* is one sentence of a script; a *relation* is a query as Spark understood it; a *catalog*
is what is there when a query is planned; an *addition* is what a new view brings.

Read `statements`, `plan` (the way from query to nodes), `catalyst`, `relation`, `lower`, `catalog`,
`explain`. It knows nothing of rows, steps or files. pyspark is known in `catalyst` alone.
"""
