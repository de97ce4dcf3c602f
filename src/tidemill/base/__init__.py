"""What every other package may lean on, and which leans on nothing of ours.

Read in this order:
- `errors`   the root of the error tree
- `clock`    monotonic time that also counts while a machine sleeps; replaced in the simulator
- `ids`      tokens, ids and nonces; seeded in the simulator
- `service`  a role with a loop: start, stop, tick, wake
- `log`      events with fields, through Python's logging; what comes again and again, seldom
- `version`  the release
- `bridge`   one event loop in a thread, for callers that are not async
"""
