"""Cluster-wide settings: one document, changed by compare-and-set."""

import asyncio

import pytest

from tidemill.app.settings import NotClusterWide, SettingError, UnknownSetting, resolve
from tidemill.app.settings_store import (
    KEY,
    SETTINGS,
    read_cluster_settings,
    set_cluster_setting,
    write_cluster_settings,
)
from tidemill.store import Conflict, Store


async def test_what_is_set_reaches_a_node_that_knows_only_the_store(store: Store) -> None:
    await set_cluster_setting(store, "ttl_s", "8", origin="test")

    settings = resolve([(await read_cluster_settings(store)).layer()])

    assert (settings.ttl_s, settings.origin("ttl_s")) == (8.0, "store")


async def test_setting_one_leaves_the_others(store: Store) -> None:
    await set_cluster_setting(store, "ttl_s", 8, origin="test")
    await set_cluster_setting(store, "slots", 3, origin="test")
    await set_cluster_setting(store, "ttl_s", None, origin="test")

    assert (await read_cluster_settings(store)).values == {"slots": 3}


async def test_racing_writers_of_different_settings_both_win(store: Store) -> None:
    await asyncio.gather(
        set_cluster_setting(store, "ttl_s", 8, origin="test"),
        set_cluster_setting(store, "slots", 3, origin="test"),
        set_cluster_setting(store, "log_level", "debug", origin="test"),
    )

    assert (await read_cluster_settings(store)).values == {"ttl_s": 8.0, "slots": 3, "log_level": "debug"}


async def test_a_write_from_an_old_reading_is_refused(store: Store) -> None:
    first = await write_cluster_settings(store, {"ttl_s": 8}, expect=0, origin="test")
    await write_cluster_settings(store, {"ttl_s": 9}, expect=first.revision, origin="test")

    with pytest.raises(Conflict):
        await write_cluster_settings(store, {"ttl_s": 10}, expect=first.revision, origin="test")

    assert (await read_cluster_settings(store)).values == {"ttl_s": 9.0}


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("port", 1, NotClusterWide),
        ("ttls", 1, UnknownSetting),
        ("ttl_s", 0, SettingError),
        ("ttls", None, UnknownSetting),
    ],
)
async def test_what_is_refused_leaves_no_document(
    store: Store, name: str, value: object, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await set_cluster_setting(store, name, value, origin="test")

    assert await store.get(SETTINGS, KEY) is None


async def test_a_newer_releases_setting_is_kept_and_passed_over(store: Store) -> None:
    await store.create(SETTINGS, KEY, {"tides": "high", "ttl_s": 8})

    await set_cluster_setting(store, "slots", 3, origin="test")
    cluster = await read_cluster_settings(store)

    assert cluster.values["tides"] == "high"
    assert resolve([cluster.layer()]).slots == 3
