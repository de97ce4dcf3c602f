"""Pipelines in the simulator: the real log, steps, coordinator and life cycle, and made-up failures.

An *owner* is a machine that takes a pipeline over, with a coordinator and pipeline workers on machines of
their own. *Producers* append. A plan drawn from the seed crashes and stalls each of them at any await, loses
and repeats what they tell each other, and starts owners while others still believe to be the owner. What a
pipeline worker computes is simple: the total of each key; what it put out is compared with an undisturbed
run of the same steps.

Read in this order: `wire` (messages and files), `worker`, `owner`, `producer`, `checks`, `plan`, `run`.
"""
