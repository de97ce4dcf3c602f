"""What is done with the rows that a spine finds."""

from typing import Any

import numpy as np

from tidemill.pipeline.zset import sum_groups
from tidemill.pipeline.zset.value import Weights


def weights_found(matches: Any, count: int) -> Weights:
    """For each of `count` keys the sum of the weights found for it: a spine does not add up its runs.

    Of totals, each key has as many sums as they have weights.
    """
    totals = np.zeros((count, *matches.found.weights.shape[1:]), np.int64)
    if len(matches.probe):
        order = np.argsort(matches.probe, kind="stable")
        probe = matches.probe[order]
        starts = np.flatnonzero(np.append(True, probe[1:] != probe[:-1]))
        totals[probe[starts]] = sum_groups(matches.found.weights[order], starts)
    return totals
