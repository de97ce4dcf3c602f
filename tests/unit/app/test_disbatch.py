"""A file of Disbatch's settings: what becomes of each key, and what is said of one that cannot be."""

import json
from pathlib import Path
from typing import Any

import pytest

from tidemill.app.disbatch import ALLOWED, translated
from tidemill.app.kinds import Balance
from tidemill.app.layers import local_layers
from tidemill.app.settings import (
    Given,
    NoSuchStore,
    SettingError,
    Settings,
    UnknownSetting,
    check_store,
    resolve,
)

# As Disbatch documents it, down to the comma after a last entry.
WHOLE = """
{
    "mongohost": "mongodb://mongodb01.example.com:27017",
    "database": "disbatch",
    "attributes": { "ssl": { "SSL_ca_file": "/etc/pki/ca.pem" } },
    "auth": {
        "disbatchd": "qwerty1",
        "disbatch_web": "qwerty2",
        "task_runner": "qwerty3",
        "plugin": "qwerty4"
    },
    "plugins": [ "Disbatch::Plugin::Demo" ],
    "monitoring": true,
    "balance": { "enabled": false, "log": true, "verbose": false, "pretend": false },
    "web_extensions": { "acme.web": { "rows": 5 } },
    "task_runner": "/usr/bin/task_runner",
    "gfs": "auto",
    "web_root": "/etc/disbatch/htdocs/",
    "views_dir": "/etc/disbatch/views/",
    "log4perl": {
        "level": "DEBUG",
        "appenders": {
            "filelog": {
                "type": "Log::Log4perl::Appender::File",
                "layout": "[%p] %d %F{1} %L %C %c> %m %n",
                "args": { "filename": "/var/log/disbatchd.log" },
            },
            "screenlog": {
                "type": "Log::Log4perl::Appender::ScreenColoredLevels",
                "layout": "[%p] %d %F{1} %L %C %c> %m %n",
                "args": { },
            }
        }
    },
    "activequeues": [ "571f8951b75bf335634ec271" ],
    "ignorequeues": []
}
"""


def read(tmp_path: Path, values: dict[str, Any] | str, **flags: Any) -> Settings:
    path = tmp_path / "config.json"
    path.write_text(values if isinstance(values, str) else json.dumps(values))
    return resolve(local_layers(flags, path, environ={}, folder=tmp_path))


def mongo(**values: Any) -> dict[str, Any]:
    return {"mongohost": "db", "database": "jobs"} | values


def test_a_whole_file_is_read(tmp_path: Path) -> None:
    settings = read(tmp_path, WHOLE)

    assert settings.store == (
        "mongodb://disbatchd:qwerty1@mongodb01.example.com:27017/disbatch?tls=true&tlsCAFile=/etc/pki/ca.pem"
    )
    assert settings.origin("store") == f"mongohost in {tmp_path}/config.json"
    assert settings.plugins == {"Disbatch::Plugin::Demo": ()}
    assert settings.balance == Balance(log=True)
    assert settings.web_extensions == {"acme.web": {"rows": 5}}
    assert (settings.task_runner, settings.web_root) == (
        Path("/usr/bin/task_runner"),
        Path("/etc/disbatch/htdocs"),
    )
    assert (settings.gfs, settings.monitoring, settings.log_level) == ("auto", True, "debug")
    assert (settings.activequeues, settings.ignorequeues) == (("571f8951b75bf335634ec271",), ())


def test_what_a_whole_file_says_in_vain_is_named(tmp_path: Path) -> None:
    settings = read(tmp_path, WHOLE)

    assert sorted(settings.unused()) == [
        "auth.disbatch_web",
        "auth.plugin",
        "auth.task_runner",
        "log4perl.appenders",
        "views_dir",
    ]
    assert "qwerty" not in str(settings.unused()) + str(settings.shown())


def test_a_store_in_mongodb_is_refused_in_one_sentence_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(NoSuchStore) as caught:
        check_store(read(tmp_path, mongo(auth={"disbatchd": "hush"})))

    assert str(caught.value) == (
        f"setting store: 'mongodb://disbatchd:***@db/jobs' (from mongohost in {tmp_path}/config.json) is in "
        "MongoDB, and this release has no MongoDB store; "
        "it has memory:, sqlite:///path or postgresql://host/database"
    )


def test_a_store_that_there_is_passes() -> None:
    check_store(Settings(store="postgresql://db/mill"))


@pytest.mark.parametrize(
    ("values", "store"),
    [
        ({}, "mongodb://db/jobs"),
        ({"mongohost": "db:27017"}, "mongodb://db:27017/jobs"),
        ({"mongohost": "a:1,b.example.org,[::1]:2"}, "mongodb://a:1,b.example.org,[::1]:2/jobs"),
        ({"mongohost": "mongodb://db:27017"}, "mongodb://db:27017/jobs"),
        ({"mongohost": "mongodb://db/"}, "mongodb://db/jobs"),
        ({"mongohost": "mongodb://db/jobs"}, "mongodb://db/jobs"),
        ({"mongohost": "mongodb+srv://db"}, "mongodb+srv://db/jobs"),
        ({"mongohost": "mongodb://a,b/?replicaSet=rs"}, "mongodb://a,b/jobs?replicaSet=rs"),
        ({"mongohost": "mongodb://ada:x@db/admin"}, "mongodb://ada:x@db/jobs?authSource=admin"),
        ({"auth": {"disbatchd": "p@ss/w:rd"}}, "mongodb://disbatchd:p%40ss%2Fw%3Ard@db/jobs"),
        ({"auth": None, "attributes": None}, "mongodb://db/jobs"),
        ({"attributes": {}}, "mongodb://db/jobs"),
        ({"attributes": {"ssl": 0}}, "mongodb://db/jobs"),
        ({"attributes": {"ssl": 1}}, "mongodb://db/jobs?tls=true"),
        ({"attributes": {"ssl": True}}, "mongodb://db/jobs?tls=true"),
        ({"attributes": {"ssl": {"SSL_ca_file": "/ca"}}}, "mongodb://db/jobs?tls=true&tlsCAFile=/ca"),
        (
            {"attributes": {"ssl": {"SSL_verify_mode": 0}}},
            "mongodb://db/jobs?tls=true&tlsAllowInvalidCertificates=true",
        ),
        ({"attributes": {"ssl": {"SSL_verify_mode": 1}}}, "mongodb://db/jobs?tls=true"),
    ],
)
def test_where_the_documents_are_becomes_the_store(
    tmp_path: Path, values: dict[str, Any], store: str
) -> None:
    assert read(tmp_path, mongo(**values)).store == store


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("mongohost", mongo(mongohost=5)),
        ("mongohost", mongo(mongohost={"host": "db"})),
        ("mongohost", mongo(mongohost="")),
        ("mongohost", mongo(mongohost="db name")),
        ("mongohost", mongo(mongohost="http://db")),
        ("mongohost", mongo(mongohost="mongodb://")),
        ("mongohost", {"database": "jobs"}),
        ("mongohost", {"auth": {"disbatchd": "hush"}}),
        ("database", {"mongohost": "db"}),
        ("database", mongo(database=5)),
        ("database", mongo(database="")),
        ("database", mongo(database="a/b")),
        ("attributes", mongo(attributes="ssl")),
        ("attributes.ssl", mongo(attributes={"ssl": "yes"})),
        ("attributes.ssl", mongo(attributes={"ssl": {"SSL_ca_file": 5}})),
        ("attributes.ssl", mongo(attributes={"ssl": {"SSL_verify_mode": 2}})),
        ("attributes.ssl", mongo(attributes={"ssl": {"SSL_ca_file": "/ca", "SSL_key": "/key"}})),
        ("auth", mongo(auth="hush")),
        ("auth", mongo(auth={"plugin": "hush"})),
        ("auth", mongo(auth={"disbatchd": 5, "plugin": "hush"})),
        ("log4perl", {"log4perl": "DEBUG"}),
        ("log4perl.level", {"log4perl": {"level": "LOUD"}}),
        ("log4perl.level", {"log4perl": {"level": 5}}),
    ],
)
def test_what_disbatch_would_not_take_is_refused_with_what_it_would(
    tmp_path: Path, name: str, values: dict[str, Any]
) -> None:
    with pytest.raises(SettingError) as caught:
        read(tmp_path, values)

    assert str(caught.value).startswith(f"setting {name}: ")
    assert str(caught.value).endswith(f"allowed: {ALLOWED[name]}")
    assert "hush" not in str(caught.value)


def test_other_attributes_are_reported_by_name(tmp_path: Path) -> None:
    settings = read(tmp_path, mongo(attributes={"ssl": 1, "connect_timeout_ms": 5}))

    assert list(settings.unused()) == ["attributes.connect_timeout_ms"]


def test_our_own_store_in_the_file_wins_and_the_other_is_reported(tmp_path: Path) -> None:
    settings = read(tmp_path, mongo(store="sqlite:///a.db", auth={"plugin": "hush"}))

    assert settings.store == "sqlite:///a.db"
    assert settings.unused() == dict.fromkeys(["mongohost", "database", "auth"], "store is set")
    check_store(settings)


def test_a_flag_wins_over_the_file_as_always(tmp_path: Path) -> None:
    settings = read(tmp_path, mongo(), store="sqlite:///a.db")

    assert (settings.store, settings.origin("store")) == ("sqlite:///a.db", "--store")


@pytest.mark.parametrize(
    ("level", "meant"),
    [
        ("TRACE", "debug"),
        ("DEBUG", "debug"),
        ("INFO", "info"),
        ("WARN", "warning"),
        ("ERROR", "error"),
        ("FATAL", "error"),
        ("warn", "warning"),
        ("Info", "info"),
    ],
)
def test_the_level_of_log4perl_is_ours(tmp_path: Path, level: str, meant: str) -> None:
    settings = read(tmp_path, {"log4perl": {"level": level}})

    assert (settings.log_level, settings.unused()) == (meant, {})
    assert settings.origin("log_level") == f"log4perl.level in {tmp_path}/config.json"


def test_log4perl_without_a_level_changes_nothing(tmp_path: Path) -> None:
    settings = read(tmp_path, {"log4perl": {"appenders": {}, "layout": "x"}})

    assert settings.log_level == "info"
    assert settings.unused() == dict.fromkeys(
        ["log4perl.appenders", "log4perl.layout"], "events go to standard error"
    )


def test_our_own_level_in_the_file_wins_and_the_other_is_reported(tmp_path: Path) -> None:
    settings = read(tmp_path, {"log_level": "error", "log4perl": {"level": "TRACE"}})

    assert (settings.log_level, settings.unused()) == ("error", {"log4perl.level": "log_level is set"})


@pytest.mark.parametrize(
    ("name", "nearest"), [("mongohots", "mongohost"), ("log4prel", "log4perl"), ("plugin", "plugins")]
)
def test_an_unknown_key_is_named_with_the_nearest(tmp_path: Path, name: str, nearest: str) -> None:
    with pytest.raises(UnknownSetting, match=rf"'{name}' .*did you mean {nearest}\?"):
        read(tmp_path, {name: 1})


def test_only_a_file_is_translated() -> None:
    with pytest.raises(
        UnknownSetting, match=r"'mongohost' \(from TIDEMILL_MONGOHOST\); only a file may have it"
    ):
        resolve(local_layers({}, environ={"TIDEMILL_MONGOHOST": "db"}))


def test_a_layer_of_ours_stays_as_it_is() -> None:
    layer = {"port": Given(7500, "a test"), "nonsense": Given(None, "a test")}

    assert translated(layer) == layer
