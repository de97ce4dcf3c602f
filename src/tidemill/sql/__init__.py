"""SQL: reads what Spark made of a query and lowers it to a pipeline plan, or names what it refuses."""
