"""The public Python faces. `import tidemill` shows them, and loads each when it is first used.

- `lock`      Lock: mutual exclusion through a store, with a fence
- `semaphore` Semaphore: at most so many at a time, likewise; `leased` is what both have in common
- `pipeline`  Pipeline: tables that change and views that follow, in a `folder`; `frames` (with `scans` and
              `python_rows`) is how rows come in, `reader` and `rows` how they come out, `verify` (with
              `differences`) what Spark says to a view; `aggregates`, `last_step`, `pins` and `progress` are
              parts of it
"""
