"""Partitions in the simulator: the real followers, keepers and partitioners, on machines that fail.

Three handlers run on every node. *files* is windowed: its tasks end, and each must be done once. *feed* is
supervised: it runs until it is stopped, and begins anew when nodes come or go. *late* is created
once all is quiet, to see how evenly it spreads.

Read in this order: `node` (what runs on a machine), `checks` (what must hold), `run` (one seed).
"""
