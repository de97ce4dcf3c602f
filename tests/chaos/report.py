"""A verdict as text."""

from collections.abc import Sequence

from chaos.run import Verdict

SHOWN = 20


def table(verdicts: Sequence[Verdict]) -> str:
    """One column for each store: the faults, then what was judged."""
    names = list(dict.fromkeys(name for verdict in verdicts for name in verdict.faults))
    counted = list(dict.fromkeys(name for verdict in verdicts for name in verdict.counts))
    rows = [
        ["", *(verdict.plan.kind for verdict in verdicts)],
        ["---", *("---:" for _ in verdicts)],
        ["minutes", *(f"{verdict.plan.seconds / 60:g}" for verdict in verdicts)],
        ["nodes", *(str(verdict.plan.nodes) for verdict in verdicts)],
        ["clock", *(verdict.clock for verdict in verdicts)],
        *([name, *(f"{verdict.faults.get(name, 0):,}" for verdict in verdicts)] for name in names),
        ["seconds until the crowd had joined", *(f"{verdict.crowd_s:.1f}" for verdict in verdicts)],
        *([name, *(f"{verdict.counts[name]:,}" for verdict in verdicts)] for name in counted),
        ["**wrong**", *(f"**{len(verdict.wrong)}**" for verdict in verdicts)],
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def complaints(verdict: Verdict) -> str:
    """What is wrong, the first of it."""
    shown = [f"{verdict.plan.kind}: {sentence}" for sentence in verdict.wrong[:SHOWN]]
    more = len(verdict.wrong) - len(shown)
    return "\n".join([*shown, *([f"{verdict.plan.kind}: and {more} more"] if more > 0 else [])])
