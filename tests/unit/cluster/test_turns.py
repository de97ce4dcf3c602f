from hypothesis import given
from hypothesis import strategies as st

from tidemill.cluster.turns import Scene, idle_ms, keys_of, place, scene_of, slot_of, turn
from tidemill.store import Document

KEYS = keys_of("gpu")
NOW = 1000


def size(slots: int) -> Document:
    return Document(KEYS.size, {"slots": slots}, 1)


def slot(number: int, holder: str, expire: int = NOW + 500) -> Document:
    return Document(KEYS.slot(number), {}, 1, term=100 + number, holder=holder, expire=expire)


def ticket(term: int, expire: int = NOW + 500) -> Document:
    return Document(KEYS.ticket(f"w{term}"), {}, 1, term=term, holder=f"w{term}", expire=expire)


def scene(*documents: Document) -> Scene:
    return scene_of(KEYS, documents, NOW)


expiries = st.sampled_from([0, NOW - 1, NOW, NOW + 1, NOW + 500])


@st.composite
def documents(draw: st.DrawFn) -> list[Document]:
    """Any semaphore: slots held, let go of and run out, also beyond its end; tickets likewise."""
    numbers = draw(st.sets(st.integers(0, 9)))
    terms = draw(st.sets(st.integers(1, 30), max_size=12))
    return [
        size(draw(st.integers(1, 6))),
        *(slot(number, f"h{number}", draw(expiries)) for number in numbers),
        *(ticket(term, draw(expiries)) for term in terms),
    ]


scenes = documents().map(lambda found: scene(*found))


@given(scenes)
def test_each_in_line_has_a_slot_of_its_own_or_none(seen: Scene) -> None:
    turns = [turn(seen, str(found.holder)) for found in seen.line]
    given_out = [number for number in turns if number is not None]

    assert len(given_out) == len(set(given_out))
    assert not set(given_out) & set(seen.held)
    assert all(number < (seen.slots or 0) for number in given_out)
    assert len(given_out) + len(seen.held) <= max(seen.slots or 0, len(seen.held))


@given(scenes)
def test_turns_go_by_order_of_arrival_and_fill_all_there_is_room_for(seen: Scene) -> None:
    turns = [turn(seen, str(found.holder)) for found in seen.line]
    room = max((seen.slots or 0) - len(seen.held), 0)

    assert [found.term for found in seen.line] == sorted(found.term for found in seen.line)
    assert [number is not None for number in turns] == [at < room for at in range(len(turns))]


@given(documents(), st.data())
def test_who_comes_in_takes_nobodys_turn_who_came_before(found: list[Document], data: st.DataObject) -> None:
    seen = scene(*found)
    ready = [waiting for waiting in seen.line if turn(seen, str(waiting.holder)) is not None]
    if not ready:
        return
    enters = data.draw(st.sampled_from(ready))
    number = turn(seen, str(enters.holder))
    assert number is not None
    others = [each for each in found if each.key not in (KEYS.slot(number), enters.key)]
    after = scene(*others, slot(number, str(enters.holder)))

    for earlier in seen.line[: place(seen, str(enters.holder))]:
        assert turn(after, str(earlier.holder)) == turn(seen, str(earlier.holder))


@given(documents(), st.sets(st.integers(31, 60), max_size=20))
def test_who_comes_later_changes_nothing_for_those_in_line(found: list[Document], later: set[int]) -> None:
    before, after = scene(*found), scene(*found, *map(ticket, later))

    for waiting in before.line:
        assert turn(after, str(waiting.holder)) == turn(before, str(waiting.holder))


@given(scenes)
def test_one_without_a_ticket_comes_after_all_who_have_one(seen: Scene) -> None:
    room = (seen.slots or 0) - len(seen.held)

    assert (turn(seen, "passer-by") is not None) == (room > len(seen.line))


@given(documents())
def test_the_order_of_the_documents_does_not_matter(found: list[Document]) -> None:
    assert scene(*found) == scene(*reversed(found))


def test_a_slot_that_ran_out_is_free_and_a_ticket_that_ran_out_is_not_in_line() -> None:
    seen = scene(size(1), slot(0, "dead", NOW), ticket(1, NOW), ticket(2))

    assert turn(seen, "w2") == 0
    assert [found.term for found in seen.lapsed] == [1]


def test_one_who_is_in_does_not_wait_even_if_its_ticket_is_still_there() -> None:
    seen = scene(size(2), slot(0, "w1"), ticket(1), ticket(2))

    assert turn(seen, "w2") == 1


def test_while_more_are_in_than_there_are_slots_nobody_has_a_turn() -> None:
    shrunk = [size(2), slot(3, "a"), slot(4, "b"), ticket(1)]

    assert turn(scene(*shrunk), "w1") is None
    assert turn(scene(*shrunk[:2], ticket(1)), "w1") == 0


def test_nobody_has_a_turn_before_the_number_of_slots_is_known() -> None:
    assert turn(scene(), "w1") is None


def test_one_rests_until_as_many_leases_have_run_out_as_are_in_its_way() -> None:
    seen = scene(size(1), slot(0, "a", NOW + 300), ticket(1, NOW + 400), ticket(2), ticket(3, NOW + 100))

    assert idle_ms(seen, "w1") == 300
    assert idle_ms(seen, "w2") == 400


@given(documents())
def test_if_nobody_acts_it_is_ones_turn_when_one_has_rested_and_not_before(found: list[Document]) -> None:
    seen = scene(*found)
    for waiting in seen.line:
        token, alive = str(waiting.holder), [each for each in found if each.key != waiting.key]
        if turn(seen, token) is None:
            alive.append(ticket(waiting.term, NOW + 1000))
            rested = NOW + idle_ms(seen, token)
            assert turn(scene_of(KEYS, alive, rested - 1), token) is None
            assert turn(scene_of(KEYS, alive, rested), token) is not None


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_names_that_differ_share_no_documents(one: str, other: str) -> None:
    here, there = keys_of(one), keys_of(other)
    for key in (there.size, there.slot(0), there.ticket("t")):
        assert (here.prefix <= key < here.end) == (one == other)


def test_a_slots_key_tells_its_number() -> None:
    assert slot_of(keys_of("a:slot:7").slot(12)) == 12
