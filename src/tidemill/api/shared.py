"""`tidemill.SharedContext`: short-lived state that all processes of a piece of work share."""

from collections.abc import Callable, Coroutine, ItemsView, Iterator, Mapping, ValuesView
from types import TracebackType
from typing import Any, Self, TypeVar

from tidemill.api.asking import Connection, ask
from tidemill.api.guard import fence_here
from tidemill.store import Body, Collection, Conflict, Fence, Fenced, Store, absolute_url

T = TypeVar("T")

CONTEXTS = Collection("contexts")
_ATTEMPTS = 1000


class SharedContext(Mapping[str, Any]):
    """One JSON object in the store at `url`, under a name: whoever names it, has it.

        context = tidemill.SharedContext("postgresql://db/tidemill", "files")
        context.set("seen", 0)
        context.update(lambda state: {**state, "seen": state["seen"] + 1})

    Every change is compare-and-set on the whole, so that none is lost, whoever else writes. It is for what
    fits in one document, and is deleted when the work is done: hundreds of entries, not a million.
    Inside of a task, changes carry the task's fence: those of a lost attempt raise `Fenced`.

    It can be pickled: what arrives is the address, with its password if it has one, and the name. Each use
    opens a connection of its own, but for those within `with context:`, which share one.
    """

    def __init__(self, url: str, name: str, *, fence: Fence | None = None) -> None:
        if url.startswith("memory:"):
            raise ValueError("a context in memory: is shared with nobody; name a store that others can reach")
        self.name = name
        self._url = absolute_url(url)
        self._fence = fence
        self._connection: Connection | None = None

    # Reading: each answer is as of one moment

    def copy(self) -> dict[str, Any]:
        """All of it, as it is now."""
        return self._ask(self._read)

    def __getitem__(self, key: str) -> Any:
        return self.copy()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.copy())

    def __len__(self) -> int:
        return len(self.copy())

    def items(self) -> ItemsView[str, Any]:
        return self.copy().items()

    def values(self) -> ValuesView[Any]:
        return self.copy().values()

    # Writing

    def set(self, key: str, value: Any) -> None:
        """Set one entry, and leave the others as they are. Raises `BadRequest` for what is no JSON."""
        self.update(lambda state: {**state, key: value})

    def update(self, change: Callable[[dict[str, Any]], Mapping[str, Any] | None]) -> dict[str, Any]:
        """Make of the whole what `change` returns; return that.

        `change` is called again when somebody else has written meanwhile, so that it should do nothing
        besides. When it returns None, what it did to the dictionary that it was given stands.
        """

        def after(state: Body) -> Body:
            changed = change(state)
            return state if changed is None else dict(changed)

        return self._ask(lambda store: self._rewrite(store, after))

    def delete(self, key: str | None = None) -> None:
        """Remove one entry, or all there is of this context. What is not there needs no removing."""
        if key is None:
            self._ask(lambda store: self._rewrite(store, lambda _: None))
        else:
            self.update(lambda state: {name: value for name, value in state.items() if name != key})

    # Inside

    async def _read(self, store: Store) -> Body:
        found = await store.get(CONTEXTS, self.name)
        return {} if found is None else found.body

    async def _rewrite(self, store: Store, change: Callable[[Body], Body | None]) -> Body:
        """Write what `change` makes of it, and again if somebody else was quicker; None deletes it."""
        for _ in range(_ATTEMPTS):
            found = await store.get(CONTEXTS, self.name)
            after = change({} if found is None else found.body)
            try:
                if found is not None and after is not None:
                    await store.replace(
                        CONTEXTS, self.name, after, expect=found.revision, fence=self._guard()
                    )
                elif found is not None:
                    await store.delete(CONTEXTS, self.name, expect=found.revision, fence=self._guard())
                elif after is not None:
                    await store.create(CONTEXTS, self.name, after, fence=self._guard())
            except Fenced:
                raise
            except Conflict:
                continue
            return after or {}
        raise Conflict(f"context {self.name!r} changes too fast to be changed")

    def _guard(self) -> Fence | None:
        return self._fence or fence_here(self._url)

    def _ask(self, work: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        return ask(self._url, work) if self._connection is None else self._connection.ask(work)

    def __enter__(self) -> Self:
        if self._connection is not None:
            raise RuntimeError(f"context {self.name!r} has its connection already")
        self._connection = Connection(self._url).__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.__exit__(kind, error, trace)

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedContext, (self._url, self.name)

    def __repr__(self) -> str:
        return f"<shared context {self.name!r}>"
