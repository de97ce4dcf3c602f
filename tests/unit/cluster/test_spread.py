import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.cluster.nodes import Node
from tidemill.cluster.partitions import OUTSTANDING, STOPPING, Partition
from tidemill.cluster.spread import Peer, choose, crew, next_look, share, waiting

NOW = 1_000_000


def partition(
    name: str, *, holder: str | None = None, expire: int = 0, state: str = OUTSTANDING, not_before: int = 0
) -> Partition:
    return Partition(f"h/{name}", "h", state, 0, 0, not_before, holder, 1, expire, 1)


def partitions(count: int) -> list[Partition]:
    return [partition(f"{at:04d}") for at in range(count)]


def peers(count: int, slots: int = 100) -> list[Peer]:
    return [Peer(f"n{at}", slots, 0) for at in range(count)]


def node(token: str, *, slots: int = 4, alive: bool = True, handlers: tuple[str, ...] = ("h",)) -> Node:
    return Node(token, token, "", slots, "", 0, 0, 1, alive, handlers)


def test_each_begins_at_its_own_place() -> None:
    free = partitions(9)
    firsts = [choose(free, peers(3), f"n{at}", 9)[0].name for at in range(3)]

    assert firsts == ["0000", "0003", "0006"]


def test_nodes_that_look_at_once_reach_for_different_partitions() -> None:
    tried = Counter(found.key for at in range(3) for found in choose(partitions(10), peers(3), f"n{at}", 9))

    assert max(tried.values()) <= 2
    assert len(tried) >= 9


def test_nothing_is_chosen_without_slots_to_spare() -> None:
    assert choose(partitions(5), peers(1), "n0", 0) == []
    assert choose(partitions(5), peers(1), "n0", -1) == []


def test_a_node_that_is_not_in_the_list_takes_nothing() -> None:
    assert choose(partitions(5), peers(2), "stranger", 5) == []


def test_those_with_the_least_to_do_come_first() -> None:
    uneven = [Peer("n0", 10, 4), Peer("n1", 10, 0), Peer("n2", 10, 1)]

    assert [share(5, uneven, token) for token in ("n0", "n1", "n2")] == [0, 3, 2]


def test_a_full_node_gets_no_share() -> None:
    mixed = [Peer("n0", 2, 2), Peer("n1", 10, 5)]

    assert [share(3, mixed, token) for token in ("n0", "n1")] == [0, 3]


def test_what_is_overdue_may_be_taken_beyond_the_share_and_before_it() -> None:
    free = partitions(4)
    chosen = choose(free, peers(2), "n0", 4, overdue={"h/0003"})

    assert [found.name for found in chosen] == ["0003", "0000", "0001"]
    assert [found.name for found in choose(free, peers(2), "n1", 2, overdue={"h/0000"})] == ["0000", "0002"]


def test_the_crew_is_those_alive_with_what_they_hold_now() -> None:
    held = [partition("a", holder="n0", expire=NOW + 1), partition("b", holder="n1", expire=NOW)]

    assert crew([node("n0"), node("dead", alive=False), node("n1")], ["h"], held, NOW) == [
        Peer("n0", 4, 1),
        Peer("n1", 4, 0),
    ]


def test_the_crew_is_those_who_run_any_of_the_handlers() -> None:
    there = [node("both", handlers=("h", "i")), node("other", handlers=("i",)), node("none", handlers=())]

    assert [peer.token for peer in crew(there, ["g", "h"], [], NOW)] == ["both"]


def test_a_partition_is_free_when_outstanding_expired_and_not_paused() -> None:
    assert partition("a").free(NOW)
    assert partition("a", holder="n0", expire=NOW).free(NOW)
    assert not partition("a", holder="n0", expire=NOW + 1).free(NOW)
    assert not partition("a", not_before=NOW + 1).free(NOW)
    assert not partition("a", state=STOPPING).free(NOW)


def test_the_next_look_is_when_the_first_lease_or_pause_ends() -> None:
    seen = [
        partition("mine", holder="me", expire=NOW + 100),
        partition("theirs", holder="n1", expire=NOW + 5000),
        partition("paused", holder="me", not_before=NOW + 3000),
        partition("stopping", state=STOPPING, holder="n1", expire=NOW + 10),
    ]

    assert next_look(seen, "me", NOW, 30.0) == 3.0
    assert next_look([], "me", NOW, 30.0) == 30.0


def test_waiting_counts_from_the_first_sight_and_forgets_what_was_taken() -> None:
    before = waiting(partitions(2), {}, 10.0)

    assert waiting(partitions(1), before, 20.0) == {"h/0000": 10.0}


crews = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=8).map(
    lambda pairs: [Peer(f"n{at}", slots, min(slots, load)) for at, (slots, load) in enumerate(pairs)]
)


@given(crews, st.integers(0, 60))
def test_shares_add_up_and_fit(team: list[Peer], free: int) -> None:
    shares = [share(free, team, peer.token) for peer in team]

    assert sum(shares) == min(free, sum(peer.slots - peer.load for peer in team))
    assert all(mine <= peer.slots - peer.load for mine, peer in zip(shares, team, strict=True))


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(0, 80), st.integers(0, 2**32))
def test_whatever_the_order_of_looking_all_is_taken_and_spread_within_one(
    nodes: int, count: int, seed: int
) -> None:
    """Each round one node looks, and takes a part of what it chose."""
    source = random.Random(seed)
    taken: dict[str, str] = {}
    while len(taken) < count:
        loads = Counter(taken.values())
        team = [Peer(f"n{at}", 100, loads[f"n{at}"]) for at in range(nodes)]
        me = team[source.randrange(nodes)].token
        free = [found for found in partitions(count) if found.key not in taken]
        for found in choose(free, team, me, 100)[: source.randint(1, 10)]:
            taken[found.key] = me

    loads = Counter(taken.values())
    assert max((loads[f"n{at}"] for at in range(nodes)), default=0) <= -(-count // nodes)
    assert min((loads[f"n{at}"] for at in range(nodes)), default=0) >= count // nodes


@given(crews, st.integers(0, 60), st.integers(0, 20))
def test_no_more_is_chosen_than_fits_and_none_twice(team: list[Peer], free: int, spare: int) -> None:
    for peer in team:
        chosen = [found.key for found in choose(partitions(free), team, peer.token, spare)]
        assert len(chosen) <= spare
        assert len(set(chosen)) == len(chosen)
