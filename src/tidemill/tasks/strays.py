"""Tasks that a node has claimed without knowing it, as the answer to its claim was lost."""

from collections.abc import Container

from tidemill.store import Store, Write, eq
from tidemill.tasks.claim import Seat
from tidemill.tasks.policy import Policy
from tidemill.tasks.status import CLAIMED
from tidemill.tasks.task import TASKS, GivenBack, body_of, move, task_of

BATCH = 1000


async def give_back_strays(store: Store, seat: Seat, known: Container[str], now: int) -> None:
    """Queue again what the node holds and does not know: nobody else would, until its lease runs out."""
    page = await store.find(TASKS, eq("status", CLAIMED), eq("node", seat.node), limit=BATCH)
    strays = [found for found in page.documents if found.holder == seat.token and found.key not in known]
    writes = []
    for found in strays:
        back = move(task_of(found), GivenBack(), Policy(), now)
        writes.append(Write(TASKS, found.key, body_of(back), found.revision, release=True))
    await store.write(writes)
