"""Cluster-wide settings: one document in the store, changed by compare-and-set.

They rank above defaults and below what a node is told itself, so `tidemill up --store URL` alone is
enough to join. A node takes them up when it starts.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.app.settings import CLUSTER_WIDE, Given, Layer, Settings, UnknownSetting, check_cluster_wide
from tidemill.store import Collection, Conflict, Store

SETTINGS = Collection("settings")
KEY = "cluster"

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The document as it was: values by name, and its revision; 0 when there is none yet."""

    values: dict[str, Any]
    revision: int

    def layer(self) -> Layer:
        """As a layer for `resolve`. Names that this release does not know are a newer one's, and left out."""
        return {name: Given(v, "store") for name, v in self.values.items() if name in CLUSTER_WIDE}


async def read_cluster_settings(store: Store) -> ClusterSettings:
    document = await store.get(SETTINGS, KEY)
    return ClusterSettings({}, 0) if document is None else ClusterSettings(document.body, document.revision)


async def write_cluster_settings(
    store: Store, values: Mapping[str, Any], *, expect: int, origin: str
) -> ClusterSettings:
    """Put these values in place of all that is there, if it is still at revision `expect` (0: absent).

    Raises `SettingError` for what may not stand there, and `Conflict` when somebody was faster.
    """
    return await _put(store, check_cluster_wide(values, origin), expect)


async def set_cluster_setting(store: Store, name: str, value: Any, *, origin: str) -> ClusterSettings:
    """Set one value, or with None take it away, and leave the others as they are, whoever else writes."""
    checked = {} if value is None else check_cluster_wide({name: value}, origin)
    for attempt in itertools.count(1):
        now = await read_cluster_settings(store)
        if value is None and name not in now.values:
            if name not in Settings.model_fields:
                raise UnknownSetting(name, origin)
            return now
        kept = {key: entry for key, entry in now.values.items() if key != name}
        try:
            return await _put(store, kept | checked, now.revision)
        except Conflict:
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError("count() does not end")


async def _put(store: Store, body: dict[str, Any], expect: int) -> ClusterSettings:
    if expect == 0:
        return ClusterSettings(body, await store.create(SETTINGS, KEY, body))
    return ClusterSettings(body, await store.replace(SETTINGS, KEY, body, expect=expect))
