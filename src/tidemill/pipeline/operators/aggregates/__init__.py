"""Aggregate functions: what each keeps of the rows of a group, and its value from what is kept.

It promises exact values: they depend on the bag of rows alone, not on the order of arrival nor on rows that
came and went. A float sum is the exact one, rounded once.

Words: a *counter* is a number per group to which every row adds, in proportion to its weight; a *detail* is
what a function needs beyond counters, a Z-set of its own with rows (group, something); a *measure* is what a
function asks to know of a group: some counters, an exact sum of floats, or something about a detail. Those
that ask for the same share it; all exact sums share one detail.

A change costs its own size for counters and float sums alike, beside a lookup per touched group. MIN, MAX and
their like keep all values: theirs is times the logarithm of the state. What looks at all values of a group,
such as a percentile, costs as much as the touched groups have.

Read `measure`, then a kind of function: `counts`, `bits`, `integers`, `decimals`, `floats`, `moments`,
`extremes`; `whole` and what is built on it, `collections` and `percentiles`; `firsts`; `user` and `states`
for functions in Python; then `layout`, which puts the functions of a node together. `limbs`, `doubles`,
`products` and `rounding` are arithmetic; `keys` normalises.

To add a function: a subclass of `measure.Function` in the file of its kind, and its name in `FUNCTIONS`. That
is all if what it measures adds up (`Counters`); if not, it brings a `Detail` and a way to read it (`Looked`).
"""

from tidemill.pipeline.operators.aggregates.layout import FUNCTIONS, Layout, function_of

__all__ = ["FUNCTIONS", "Layout", "function_of"]
