"""Versioned documents in a database that people already run, and blobs beside it.

The promise: every change is compare-and-set on a document's revision, or under a term that fences it;
a write is done, lost, or honestly unknown; and instants are compared on the database's clock alone.

Words: a *collection* of *documents*, each with a *revision*; a document can be *held* under a *term*
until it *expires*; a *fence* is the term under which a write is made; a *cap* bounds what may be held.

Read in this order:
- `document`   the values: Collection, Document, Write, Condition, Claim, Lease
- `errors`     what can go wrong, and what to do about it
- `store`      Store, the verbs
- `settle`     what became of a write whose answer was lost
- `open`       open_store(url), absolute_url(url)
- `backend`    the seam that each database implements, in `backends/`
- `check`, `cursor`, `watch`, `release`   the parts of Store that are the same everywhere
- `blobs`      what is too large for a document
- `testing`    the suite that proves a backend

It knows nothing of nodes, tasks or pipelines.
"""

from tidemill.store.document import (
    Body,
    Cap,
    Claim,
    Collection,
    Condition,
    Document,
    Done,
    Fence,
    Lease,
    Lost,
    Outcome,
    Page,
    Term,
    Unknown,
    Write,
    eq,
    ge,
    gt,
    le,
    lt,
    one_of,
)
from tidemill.store.errors import (
    BadRequest,
    Conflict,
    Fenced,
    Locked,
    NoStore,
    OutcomeUnknown,
    ReadOnly,
    ReleaseTooOld,
    StoreError,
    Unavailable,
)
from tidemill.store.open import absolute_url, open_store
from tidemill.store.store import Statistics, Store

__all__ = [
    "Store",
    "open_store",
    "absolute_url",
    "Collection",
    "Document",
    "Body",
    "Write",
    "Outcome",
    "Done",
    "Lost",
    "Unknown",
    "Fence",
    "Term",
    "Lease",
    "Claim",
    "Cap",
    "Condition",
    "eq",
    "one_of",
    "lt",
    "le",
    "gt",
    "ge",
    "Page",
    "Statistics",
    "StoreError",
    "Conflict",
    "Fenced",
    "OutcomeUnknown",
    "NoStore",
    "Unavailable",
    "Locked",
    "ReadOnly",
    "BadRequest",
    "ReleaseTooOld",
]
