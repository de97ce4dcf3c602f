"""The public Python faces. `import tidemill` shows them, and loads each when it is first used.

- `lock`      Lock: mutual exclusion through a store, with a fence
- `semaphore` Semaphore: at most so many at a time, likewise; `leased` is what both have in common
- `executor`  Executor: functions as tasks, and their futures; `client` adds the nodes, `line` and `http_line`
              are the two ways to a cluster, `settling` gives futures their results, `handling` does what is
              to be done about tasks that end badly
- `current`   current(): the task that a function runs as; `guard` is its fence
- `shared`    SharedContext: state for all who name it, through `asking`
- `pipeline`  Pipeline: tables that change and views that follow, in a `folder`; `frames` (with `scans` and
              `python_rows`) is how rows come in, `reader` and `rows` how they come out, `verify` (with
              `differences`) what Spark says to a view; `aggregates`, `last_step`, `pins` and `progress` are
              parts of it
"""
