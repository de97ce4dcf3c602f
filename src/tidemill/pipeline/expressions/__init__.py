"""Expressions: trees compiled once into closures of Arrow and numpy calls that give Spark's own answers.

It promises that what `compile` accepts equals Spark 4.3 on every value, errors included; `supports` says
beforehand what it does not accept. Which functions those are is data (`proved`), and each entry is proved by
a differential test against Spark.

Words: a *kernel* takes the values of a call's arguments for all rows of a batch; a *form* decides how the
arguments are evaluated before (`evaluation`): a branch that is not taken may not raise.

Read `compiler`, `evaluation`, `entry`, `proved`, then any kind of kernel: `comparison`, `nulls`,
`conditionals`, `arithmetic`, `decimals`, `rounding`, `casts` (with `casts_text` and `casts_time`), `strings`
(with `letters`, and `patterns` over `regular`), `dates` (with `formats`), `nested`, `collections`; `kernels`
and `points` are what they are made of.

It knows nothing of Catalyst: whoever reads a Catalyst expression fills the options that the docstring of a
function names.
"""

from tidemill.pipeline.expressions.compiler import compile, supports  # noqa: A004

__all__ = ["compile", "supports"]
