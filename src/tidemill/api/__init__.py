"""The public Python faces. `import tidemill` shows them, and loads each when it is first used.

- `lock`   Lock: mutual exclusion through a store, with a fence
"""
