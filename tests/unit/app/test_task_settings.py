"""The settings of tasks and of what is served besides: every kind of value, from a file and as text."""

import json
from pathlib import Path
from typing import Any

import pytest

from tidemill.app.kinds import Balance
from tidemill.app.layers import local_layers
from tidemill.app.settings import Given, SettingError, Settings, about, resolve


def given(name: str, value: Any) -> Settings:
    return resolve([{name: Given(value, "a test")}])


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("blobs", "file:///srv/blobs", "file:///srv/blobs"),
        ("blobs", "s3://bucket/mill?region=x", "s3://bucket/mill?region=x"),
        ("blobs", "/srv/blobs", "/srv/blobs"),
        ("maxthreads", 0, 0),
        ("maxthreads", "5", 5),
        ("maxthreads", None, None),
        ("maxthreads", "none", None),
        ("activequeues", ["a", "B:1"], ("a", "B:1")),
        ("activequeues", "a, B", ("a", "B")),
        ("activequeues", [], ()),
        ("ignorequeues", "slow", ("slow",)),
        ("plugins", [], {}),
        ("plugins", "", {}),
        (
            "plugins",
            ["Disbatch::Plugin::Demo", "acme.resize"],
            {"Disbatch::Plugin::Demo": (), "acme.resize": ()},
        ),
        ("plugins", "a, b", {"a": (), "b": ()}),
        ("plugins", {"a": "/opt/a --fast 'x y'"}, {"a": ("/opt/a", "--fast", "x y")}),
        ("plugins", {"a": ["/opt/a", "x y"], "b": None, "c": []}, {"a": ("/opt/a", "x y"), "b": (), "c": ()}),
        ("plugins", '{"a": "/opt/a"}', {"a": ("/opt/a",)}),
        ("plugins", '["a.b", "c"]', {"a.b": (), "c": ()}),
        ("task_runner", "/usr/bin/task_runner", Path("/usr/bin/task_runner")),
        ("runner_tasks", "1", 1),
        ("runner_memory_mb", 16, 16),
        ("runner_memory_mb", "none", None),
        ("payload_mb", "1", 1),
        ("gfs", "auto", "auto"),
        ("gfs", True, "true"),
        ("gfs", False, "false"),
        ("gfs", "True", "true"),
        ("monitoring", False, False),
        ("monitoring", "true", True),
        ("balance", {"enabled": True, "pretend": True}, Balance(enabled=True, pretend=True)),
        ("balance", '{"log": true, "verbose": false}', Balance(log=True)),
        ("balance", {}, Balance()),
        ("web_extensions", {"acme.web": {"rows": 5}, "plain": None}, {"acme.web": {"rows": 5}, "plain": {}}),
        ("web_extensions", '{"acme.web": {}}', {"acme.web": {}}),
        ("web_root", "/srv/www", Path("/srv/www")),
        ("views_dir", "/etc/disbatch/views/", Path("/etc/disbatch/views")),
    ],
)
def test_a_value_that_is_allowed_is_read(name: str, value: Any, meant: Any) -> None:
    assert getattr(given(name, value), name) == meant


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("blobs", ""),
        ("blobs", "ftp://host/blobs"),
        ("blobs", "file://host/blobs"),
        ("blobs", 5),
        ("maxthreads", -1),
        ("maxthreads", True),
        ("maxthreads", "many"),
        ("activequeues", "a b"),
        ("activequeues", {"a": 1}),
        ("activequeues", [1]),
        ("ignorequeues", True),
        ("plugins", 5),
        ("plugins", [5]),
        ("plugins", ["a b"]),
        ("plugins", [""]),
        ("plugins", {"a": 5}),
        ("plugins", {"a": " "}),
        ("plugins", {"a": False}),
        ("plugins", {"a": "'"}),
        ("plugins", {"a": {"command": "x"}}),
        ("plugins", {"a": ["x", ""]}),
        ("plugins", "{"),
        ("task_runner", 5),
        ("runner_tasks", 0),
        ("runner_tasks", None),
        ("runner_memory_mb", 15),
        ("payload_mb", 0),
        ("gfs", "always"),
        ("gfs", 1),
        ("gfs", None),
        ("monitoring", "loud"),
        ("monitoring", {}),
        ("balance", {"enable": True}),
        ("balance", {"enabled": "loud"}),
        ("balance", True),
        ("balance", "on"),
        ("web_extensions", ["acme.web"]),
        ("web_extensions", {"Acme::Web": {}}),
        ("web_extensions", {"acme.web": 5}),
        ("web_extensions", "acme.web"),
        ("web_root", 5),
        ("views_dir", []),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_with_what_is(name: str, value: Any) -> None:
    with pytest.raises(SettingError) as caught:
        given(name, value)

    assert str(caught.value).startswith(f"setting {name}: ")
    assert str(caught.value).endswith(f"(from a test) is not allowed; allowed: {about(name).allowed}")


def test_defaults_leave_nothing_to_be_set(tmp_path: Path) -> None:
    settings = resolve(local_layers({"data": str(tmp_path)}, environ={}, folder=tmp_path))

    assert settings.blobs == f"file://{tmp_path}/blobs"
    assert (settings.maxthreads, settings.plugins, settings.gfs, settings.monitoring) == (
        None,
        {},
        "auto",
        True,
    )
    assert settings.unused() == {}


def test_the_default_blobs_of_a_relative_folder_are_named_in_full() -> None:
    assert Settings(data=Path("here")).blobs == f"{Path('here').absolute().as_uri()}/blobs"


@pytest.mark.parametrize(
    ("active", "ignored", "reported"),
    [([], [], []), (["a"], [], []), ([], ["a"], []), (["a"], ["b"], ["ignorequeues"])],
)
def test_ignored_queues_are_reported_unused_next_to_active_ones(
    active: list[str], ignored: list[str], reported: list[str]
) -> None:
    settings = Settings(activequeues=tuple(active), ignorequeues=tuple(ignored))

    assert list(settings.unused()) == reported


def test_the_folder_of_views_is_reported_unused() -> None:
    assert given("views_dir", "/etc/disbatch/views/").unused() == {"views_dir": "the pages have no templates"}


def test_options_that_are_secret_are_masked() -> None:
    options = {"url": "https://t0ken@node", "password": "hush", "deep": [{"api_key": "hush"}], "rows": 5}

    shown = given("web_extensions", {"acme.web": options}).shown()

    assert shown["web_extensions"]["acme.web"] == {
        "url": "https://***@node",
        "password": "***",
        "deep": [{"api_key": "***"}],
        "rows": 5,
    }


def test_a_refused_table_does_not_show_its_secrets() -> None:
    with pytest.raises(SettingError) as caught:
        given("web_extensions", {"acme.web": {"password": "hush"}, "Acme::Web": {}})

    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        '{"plugins": ["a"], "port": 7500}',
        '{"plugins": ["a",], "port": 7500,\n}',
        '# all of it\n{"plugins": ["a"], # one\n "port": 7500 # and, }\n}',
    ],
)
def test_comments_and_a_last_comma_are_allowed_in_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "tidemill.json").write_text(text)

    settings = resolve(local_layers({}, environ={}, folder=tmp_path))

    assert (settings.plugins, settings.port) == ({"a": ()}, 7500)


def test_what_looks_like_a_comment_in_a_string_stays(tmp_path: Path) -> None:
    options = {"title": 'a # b, }, "c" \\', "colour": "#fff,]"}
    (tmp_path / "tidemill.json").write_text(json.dumps({"web_extensions": {"acme": options}}))

    assert resolve(local_layers({}, environ={}, folder=tmp_path)).web_extensions == {"acme": options}


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("plugins", {"good": "/opt/a", "bad": 5}, "{'bad': 5}"),
        ("plugins", '{"good": "/opt/a", "bad": ["x", ""]}', "{'bad': ['x', '']}"),
        ("plugins", {"good": [], "not good": []}, "'not good'"),
        ("plugins", ["good", "not good"], "'not good'"),
        ("plugins", "good, not good", "'not good'"),
        ("balance", {"enabled": True, "lod": True}, "{'lod': True}"),
    ],
)
def test_of_a_table_the_entry_is_shown_that_is_not_allowed(name: str, value: Any, shown: str) -> None:
    with pytest.raises(SettingError) as caught:
        given(name, value)

    assert str(caught.value).startswith(f"setting {name}: {shown} (from a test) is not allowed; allowed: ")
