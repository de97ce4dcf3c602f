"""Settings: which layer wins, where a value came from, and what is said about one that is not allowed."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tidemill.app.layers import local_layers
from tidemill.app.mask import masked
from tidemill.app.settings import (
    CLUSTER_WIDE,
    ConfigFileError,
    Given,
    HoldsSecret,
    NotClusterWide,
    SettingError,
    Settings,
    UnknownSetting,
    check_cluster_wide,
    resolve,
)

FLAGS, ENVIRON, FILE, STORE, DEFAULT = "--ttl-s", "TIDEMILL_TTL_S", "tidemill.toml", "store", "default"
VALUES = {FLAGS: 11.0, ENVIRON: 12.0, FILE: 13.0, STORE: 14.0, DEFAULT: 5.0}


def settings_with(tmp_path: Path, *layers: str) -> Settings:
    """Settings whose `ttl_s` is given in just those layers."""
    flags = {"ttl_s": VALUES[FLAGS]} if FLAGS in layers else {}
    environ = {ENVIRON: str(VALUES[ENVIRON])} if ENVIRON in layers else {}
    if FILE in layers:
        (tmp_path / FILE).write_text(f"ttl_s = {VALUES[FILE]}\n")
    stored = {"ttl_s": Given(VALUES[STORE], STORE)} if STORE in layers else {}
    return resolve([*local_layers(flags, environ=environ, folder=tmp_path), stored])


@pytest.mark.parametrize(
    ("stronger", "weaker"), list(itertools.combinations([FLAGS, ENVIRON, FILE, STORE, DEFAULT], 2))
)
def test_the_stronger_layer_wins_and_is_named(tmp_path: Path, stronger: str, weaker: str) -> None:
    settings = settings_with(tmp_path, stronger, weaker)

    assert settings.ttl_s == VALUES[stronger]
    assert Path(settings.origin("ttl_s")).name == stronger


def test_without_any_layer_the_default_holds(tmp_path: Path) -> None:
    settings = settings_with(tmp_path)

    assert (settings.ttl_s, settings.origin("ttl_s")) == (5.0, "default")
    assert (settings.host, settings.port, settings.store) == (
        "127.0.0.1",
        7433,
        "sqlite:///.tidemill/tidemill.db",
    )


def test_the_default_store_lies_in_the_data_folder(tmp_path: Path) -> None:
    settings = resolve(local_layers({"data": str(tmp_path)}, environ={}, folder=tmp_path))

    assert settings.store == f"sqlite:///{tmp_path}/tidemill.db"


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("port", "many", "a whole number from 0 to 65535"),
        ("port", "70000", "a whole number from 0 to 65535"),
        ("ttl_s", "nan", "seconds, from 0.5 to 300"),
        ("slots", "-1", "a whole number from 0 to 10000"),
        ("log_level", "loud", "debug, info, warning or error"),
        ("name", "a b", "letters, digits"),
        ("store", "mysql://db", "postgresql://host/database"),
        ("allowed_hosts", "*", "no wildcards"),
        ("allowed_origins", "example.org", "origins such as https://example.org"),
        ("host", "", "an address or name of this machine"),
    ],
)
def test_a_bad_value_is_named_with_its_origin_and_what_is_allowed(
    tmp_path: Path, name: str, value: str, allowed: str
) -> None:
    variable = f"TIDEMILL_{name.upper()}"

    with pytest.raises(SettingError) as caught:
        resolve(local_layers({}, environ={variable: value}, folder=tmp_path))

    message = str(caught.value)
    assert f"setting {name}: {value!r} (from {variable})" in message
    assert allowed in message


@pytest.mark.parametrize("value", [5, True, {"a": 1}, [5], None])
def test_a_file_with_a_value_of_another_kind_is_refused(tmp_path: Path, value: Any) -> None:
    (tmp_path / "tidemill.json").write_text(json.dumps({"allowed_origins": value}))

    with pytest.raises(SettingError, match="allowed_origins"):
        resolve(local_layers({}, environ={}, folder=tmp_path))


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownSetting, match=r"'prot' \(from TIDEMILL_PROT\); did you mean port\?"):
        resolve(local_layers({}, environ={"TIDEMILL_PROT": "1"}))


def test_an_unknown_name_in_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tidemill.toml").write_text('[cluster]\nname = "a"\n')

    with pytest.raises(UnknownSetting, match=r"'cluster' \(from .*tidemill\.toml\)"):
        resolve(local_layers({}, environ={}, folder=tmp_path))


def test_what_kubernetes_sets_for_a_service_called_tidemill_is_passed_over(tmp_path: Path) -> None:
    environ = {
        "TIDEMILL_PORT": "tcp://10.0.0.1:7433",
        "TIDEMILL_SERVICE_HOST": "10.0.0.1",
        "TIDEMILL_PORT_7433_TCP": "tcp://10.0.0.1:7433",
    }

    assert resolve(local_layers({}, environ=environ, folder=tmp_path)).port == 7433


def test_json_serves_as_well_as_toml(tmp_path: Path) -> None:
    (tmp_path / "tidemill.json").write_text('{"port": 7500, "allowed_hosts": ["Mill.example.org"]}')

    settings = resolve(local_layers({}, environ={}, folder=tmp_path))

    assert (settings.port, settings.allowed_hosts) == (7500, ("mill.example.org",))


def test_a_named_file_is_read_instead_of_the_usual_one(tmp_path: Path) -> None:
    (tmp_path / "tidemill.toml").write_text("port = 1\n")
    (tmp_path / "other.toml").write_text("port = 2\n")

    by_flag = local_layers({}, tmp_path / "other.toml", environ={}, folder=tmp_path)
    by_variable = local_layers({}, environ={"TIDEMILL_CONFIG": str(tmp_path / "other.toml")}, folder=tmp_path)

    assert resolve(by_flag).port == resolve(by_variable).port == 2


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"tidemill.toml": "port = 1", "tidemill.json": "{}"}, "keep one"),
        ({"tidemill.toml": "port = "}, "not valid toml"),
        ({"tidemill.json": "[]"}, "names with values"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    with pytest.raises(ConfigFileError, match=message):
        local_layers({}, environ={}, folder=tmp_path)


def test_a_named_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigFileError, match="cannot be read: No such file"):
        local_layers({}, tmp_path / "absent.toml", environ={})


def test_tls_needs_both_files() -> None:
    with pytest.raises(SettingError, match=r"tls_key.*together with tls_cert"):
        resolve(local_layers({"tls_cert": "cert.pem"}, environ={}))


@pytest.mark.parametrize(
    "name",
    [
        "host",
        "port",
        "data",
        "store",
        "name",
        "tls_cert",
        "tls_key",
        "maxthreads",
        "activequeues",
        "ignorequeues",
        "plugins",
        "task_runner",
        "web_extensions",
        "web_root",
        "views_dir",
    ],
)
def test_a_nodes_own_setting_may_not_be_cluster_wide(name: str) -> None:
    with pytest.raises(NotClusterWide, match=f"setting {name} is each node's own .*: .+"):
        check_cluster_wide({name: "x"}, "request")


def test_cluster_wide_values_are_checked_and_made_plain() -> None:
    values = {
        "ttl_s": "8",
        "slots": "3",
        "log_level": "debug",
        "audit_keep_days": "90",
        "allowed_hosts": "a, B",
        "allowed_origins": "",
        "blobs": "s3://bucket/mill",
        "runner_tasks": "10",
        "runner_memory_mb": "none",
        "payload_mb": "64",
        "path_prefix": "/mill",
        "worker_grace_s": "2",
        "worker_message_mb": "8",
        "gfs": True,
        "monitoring": "false",
        "balance": '{"enabled": true}',
    }

    checked = check_cluster_wide(values, "request")

    assert set(checked) == set(CLUSTER_WIDE)
    assert checked == {
        "ttl_s": 8.0,
        "slots": 3,
        "log_level": "debug",
        "audit_keep_days": 90,
        "allowed_hosts": ["a", "b"],
        "allowed_origins": [],
        "blobs": "s3://bucket/mill",
        "runner_tasks": 10,
        "runner_memory_mb": None,
        "payload_mb": 64,
        "path_prefix": "/mill",
        "worker_grace_s": 2.0,
        "worker_message_mb": 8,
        "gfs": "true",
        "monitoring": False,
        "balance": {"enabled": True, "log": False, "verbose": False, "pretend": False},
    }


def test_a_secret_has_no_place_in_the_store() -> None:
    with pytest.raises(HoldsSecret) as caught:
        check_cluster_wide({"blobs": "s3://b/p?access_key_id=a&secret_access_key=hush"}, "request")

    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:hunter2@db/mill", "postgresql://ada:***@db/mill"),
        ("postgresql://ada:p@ss@db/mill?x=1", "postgresql://ada:***@db/mill?x=1"),
        ("postgresql://db/mill?password=hunter2&x=1", "postgresql://db/mill?password=***&x=1"),
        ("postgresql://ada@db:5432/mill", "postgresql://ada@db:5432/mill"),
        ("sqlite:///.tidemill/tidemill.db", "sqlite:///.tidemill/tidemill.db"),
    ],
)
def test_passwords_in_addresses_are_masked(url: str, shown: str) -> None:
    assert masked(url) == shown
    assert resolve(local_layers({"store": url}, environ={})).shown()["store"] == shown


def test_tokens_in_the_addresses_of_nodes_are_masked() -> None:
    assert masked("https://t0ken@node:7433") == "https://***@node:7433"


def test_keys_of_s3_are_masked() -> None:
    assert masked("s3://b/p?secret_access_key=hush&region=x") == "s3://b/p?secret_access_key=***&region=x"


def test_a_refused_address_does_not_show_its_password() -> None:
    with pytest.raises(SettingError) as caught:
        resolve(local_layers({"store": "mysql://ada:hunter2@db"}, environ={}))

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"), [("port", True), ("slots", True), ("ttl_s", True), ("allowed_hosts", [1])]
)
def test_what_python_takes_for_a_number_or_text_is_refused(name: str, value: Any) -> None:
    with pytest.raises(SettingError, match=name):
        resolve([{name: Given(value, "a test")}])


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("port: 1")
    with pytest.raises(SettingError, match=r"neither .toml nor .json"):
        local_layers({}, path, {}, tmp_path)
