"""The operators: one file for each class of node in `tidemill.pipeline.plan.node`.

An operator turns the change of its inputs into the change of its output, so that the sum of what it put out
is always what its query says of the sum of what went in. It promises to be exact (rows are compared by value,
weights do not wrap), deterministic, and to cost what changed, not what is stored.

Words: a *flow* is what goes from node to node in a round; a *state* is the running sum that an operator asks
for; a *spine* is that state at hand; *before* and *after* are the spine without and with this round's change;
a *fresh* operator sees the whole of its inputs, not a change.

Read `operator` (what one is), then by rising need of state: `select`, `union`, `negate`, `generate` (linear:
none), `arrange`, `view` (keep what passes), `distinct`, `source` (look up their own), `join` (looks up those
of its inputs), `aggregate`. `rows` and `matching` are what several share; `registry` finds the operator of a
node. `Exchange` and `SparkSelect` have none here: a runtime runs them between stages.

To add an operator:

1. the node in `plan/node.py`: what it computes, as data;
2. a file here with its class: `step` is the kernel, numpy and Arrow compute only, early out on no change;
   `states` declares what it keeps, by which key; `cost` says how work follows the change;
3. its line in `registry`;
4. its property test: `tidemill.pipeline.testing.check` with the query in plain Python. It proves that many
   small steps == one big step == several rounds == created late == that query, on random changes.
"""

from tidemill.pipeline.operators.registry import OPERATORS, build

__all__ = ["build", "OPERATORS"]
