"""The public Python faces of what lies below: pipelines, executors, connections and locks."""
