"""Random names: tokens, ids and nonces.

Each draws from `random.Random`, which a caller may seed; the default one is the system's.
"""

import random
import uuid

import uuid_utils

_SYSTEM = random.SystemRandom()


def new_token(source: random.Random = _SYSTEM) -> str:
    """A name that nobody ever had: what a node or a lock shows as the holder of a lease."""
    return str(uuid.UUID(int=source.getrandbits(128), version=4))


def new_id() -> str:
    """A unique id that sorts by the time it was made."""
    return str(uuid_utils.uuid7())


def new_nonce(source: random.Random = _SYSTEM) -> int:
    """A positive 63-bit number that marks one write, so that its fate can be read back."""
    return source.getrandbits(63) | 1
