"""Random histories, told to a backend and to the memory backend, which must agree on every answer.

Revisions and terms differ from store to store, so a history names them by their place: the newest known
of a key, or one before it. Leases are long, so that no clock takes part.
"""

import random
from typing import Any

import pytest

from tidemill.store import Cap, Claim, Done, Fence, Store, Term, Write, eq, one_of, open_store
from tidemill.store.testing.leases import LEASES, LONG_MS
from tidemill.store.testing.writes import TASKS

KEYS = [f"k{at}" for at in range(6)]
HOLDERS = ["ada", "bob"]
STEPS = 60


class Teller:
    """Tells a history to one store, and writes down what it answers, without the numbers."""

    def __init__(self, store: Store, seed: int) -> None:
        self._store = store
        self._random = random.Random(seed)
        self._revisions: dict[str, list[int]] = {key: [-1, -1] for key in KEYS}
        self._terms: dict[str, list[int]] = {key: [-1, -1] for key in [*KEYS, "leader"]}
        self.answers: list[Any] = []

    async def tell(self) -> list[Any]:
        acts = [self._write, self._write, self._claim, self._hold, self._lead, self._release, self._look]
        for _ in range(STEPS):
            act = self._random.choice(acts)
            self.answers.append((act.__name__, await act()))
        return self.answers

    async def _write(self) -> Any:
        writes = [self._draw_write() for _ in range(self._random.choice([1, 1, 2, 5]))]
        outcomes = await self._store.write(writes)
        for write, outcome in zip(writes, outcomes, strict=True):
            if isinstance(outcome, Done) and outcome.revision:
                self._revisions[write.key].append(outcome.revision)
        return [type(outcome).__name__ for outcome in outcomes]

    def _draw_write(self) -> Write:
        source, key = self._random, self._random.choice(KEYS)
        body = {"queue": source.choice("qr"), "status": source.randint(0, 2), "n": source.randint(0, 99)}
        revision, term = source.choice(self._revisions[key][-2:]), source.choice(self._terms[key][-2:])
        expect = source.choice([None, revision, revision, Term(term)])
        fence = Fence(LEASES, "leader", source.choice(self._terms["leader"][-2:]))
        return Write(
            TASKS,
            key,
            None if expect is not None and source.random() < 0.2 else body,
            expect,
            fence if source.random() < 0.3 else None,
            release=source.random() < 0.3,
        )

    async def _claim(self) -> Any:
        source = self._random
        running = Cap((eq("status", 1),), source.randint(0, 4))
        taken = await self._store.claim(
            TASKS,
            Claim(
                where=(one_of("status", source.sample([0, 1, 2], 2)),),
                holder=source.choice(HOLDERS),
                ttl_ms=LONG_MS,
                n=source.randint(1, 4),
                sort=source.choice([(), ("-key",), ("queue", "-status")]),
                set=source.choice([(("status", 1),), (("queue", None), ("status", 1))]),
                caps=source.choice([(), (running,)]),
            ),
        )
        for document in taken:
            self._revisions[document.key].append(document.revision)
            self._terms[document.key].append(document.term)
        return [(document.key, document.body, document.holder) for document in taken]

    async def _hold(self) -> Any:
        keys = self._random.sample(KEYS, 3)
        leases = await self._store.hold(TASKS, keys, self._random.choice(HOLDERS), LONG_MS)
        changed = [leases[key].term != self._terms[key][-1] for key in keys]
        for key in keys:
            self._note_term(key, leases[key].term)
        return [(key, leases[key].holder, new) for key, new in zip(keys, changed, strict=True)]

    async def _lead(self) -> Any:
        lease = (await self._store.hold(LEASES, ["leader"], self._random.choice(HOLDERS), LONG_MS))["leader"]
        self._note_term("leader", lease.term)
        return lease.holder

    async def _release(self) -> Any:
        source = self._random
        if source.random() < 0.3:
            await self._store.release(LEASES, {"leader": self._terms["leader"][-1]})
        else:
            key = source.choice(KEYS)
            await self._store.release(TASKS, {key: source.choice(self._terms[key][-2:])})

    async def _look(self) -> Any:
        page = await self._store.find(TASKS, sort=("status", "-queue"))
        return [(one.key, one.body, one.holder, one.expire > 0) for one in page.documents]

    def _note_term(self, key: str, term: int) -> None:
        if term != self._terms[key][-1]:
            self._terms[key].append(term)


class HistoryCases:
    """Whatever happens, it happens alike on every backend."""

    @pytest.mark.parametrize("seed", range(12))
    async def test_a_random_history_has_the_same_answers_as_in_memory(self, store: Store, seed: int) -> None:
        async with open_store("memory:") as model:
            expected = await Teller(model, seed).tell()
        answers = await Teller(store, seed).tell()

        for step, (answer, wanted) in enumerate(zip(answers, expected, strict=True)):
            assert answer == wanted, f"step {step}"
