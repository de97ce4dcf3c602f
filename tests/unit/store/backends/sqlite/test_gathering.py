"""Writes that come in the same moment, and what each caller is told."""

import asyncio
from collections.abc import Sequence

import pytest

from tidemill.store.backends.sqlite.gathering import MOST_ROWS, Gathering, Part
from tidemill.store.document import Done, Outcome


class Commits:
    """What was committed together. A part of the nonce 13 cannot be."""

    def __init__(self) -> None:
        self.together: list[list[int]] = []

    async def __call__(self, parts: Sequence[Part]) -> list[list[Outcome]]:
        self.together.append([part.nonce for part in parts])
        if 13 in self.together[-1]:
            raise ValueError("13")
        return [[Done(part.nonce)] for part in parts]


def part(nonce: int, size: int = 1) -> Part:
    return Part([], nonce, size)


async def test_those_who_write_in_one_moment_share_a_commit_and_have_their_own_outcomes() -> None:
    commits = Commits()
    gathering = Gathering(commits)

    outcomes = await asyncio.gather(*(gathering.add(part(nonce)) for nonce in (1, 2, 3)))

    assert outcomes == [[Done(1)], [Done(2)], [Done(3)]]
    assert commits.together == [[1, 2, 3]]


async def test_those_who_come_while_another_commits_go_together_after_it() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    commits = Commits()

    async def slow(parts: Sequence[Part]) -> list[list[Outcome]]:
        begun.set()
        await go_on.wait()
        return await commits(parts)

    gathering = Gathering(slow)
    first = asyncio.create_task(gathering.add(part(1)))
    await begun.wait()
    others = asyncio.gather(*(gathering.add(part(nonce)) for nonce in (2, 3)))
    await asyncio.sleep(0)
    go_on.set()

    assert (await first, await others) == ([Done(1)], [[Done(2)], [Done(3)]])
    assert commits.together == [[1], [2, 3]]


async def test_a_commit_has_a_bound() -> None:
    commits = Commits()
    gathering = Gathering(commits)

    await asyncio.gather(*(gathering.add(part(nonce, MOST_ROWS // 2)) for nonce in (1, 2, 3)))

    assert commits.together == [[1, 2], [3]]


async def test_those_who_write_one_after_the_other_do_not() -> None:
    commits = Commits()
    gathering = Gathering(commits)

    await gathering.add(part(1))
    await gathering.add(part(2))

    assert commits.together == [[1], [2]]


async def test_one_that_cannot_be_committed_fails_alone() -> None:
    gathering = Gathering(Commits())

    outcomes = await asyncio.gather(
        *(gathering.add(part(nonce)) for nonce in (1, 13, 2)), return_exceptions=True
    )

    assert outcomes[0] == [Done(1)]
    assert isinstance(outcomes[1], ValueError)
    assert outcomes[2] == [Done(2)]


async def test_what_is_large_goes_alone() -> None:
    commits = Commits()
    gathering = Gathering(commits)

    await asyncio.gather(gathering.add(part(1)), gathering.add(part(2, MOST_ROWS + 1)))

    assert sorted(commits.together) == [[1], [2]]


async def test_a_caller_that_is_cancelled_takes_nobody_with_it() -> None:
    gathering = Gathering(Commits())
    first = asyncio.create_task(gathering.add(part(1)))
    second = asyncio.create_task(gathering.add(part(2)))
    await asyncio.sleep(0)
    first.cancel()

    assert await second == [Done(2)]
    with pytest.raises(asyncio.CancelledError):
        await first
