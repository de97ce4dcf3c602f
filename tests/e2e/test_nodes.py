import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from crash.stopping import stop
from e2e.nodes import NodeProcess, agreed, nodes, until
from servers import PostgresServer

pytestmark = pytest.mark.crash


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tidemill", *words], capture_output=True, text=True, check=False
    )


def shown(*words: str) -> Any:
    return json.loads(command(*words, "--json").stdout)


def leader_of(running: list[NodeProcess], view: dict[str, Any]) -> NodeProcess:
    [name] = [node["name"] for node in view["nodes"] if node["token"] == view["leader"]]
    return next(node for node in running if node.name == name)


async def test_three_nodes_agree_and_survive_the_death_of_their_leader(
    store_url: str, tmp_path: Path
) -> None:
    async with nodes(store_url, tmp_path, 3) as running:
        before = await agreed(running)
        leader = leader_of(running, before)
        assert sorted(node["name"] for node in before["nodes"]) == ["n0", "n1", "n2"]

        await leader.kill()
        rest = [node for node in running if node is not leader]
        after = await agreed(rest)
        assert after["term"] > before["term"]
        dead = next(node for node in after["nodes"] if node["name"] == leader.name)
        assert not dead["alive"]
        assert [await node.status("/readyz") for node in rest] == [200, 200]


async def test_a_stopped_leader_comes_back_as_a_follower(store_url: str, tmp_path: Path) -> None:
    async with nodes(store_url, tmp_path, 3) as running:
        before = await agreed(running)
        leader = leader_of(running, before)
        rest = [node for node in running if node is not leader]
        stop(leader.pid, store_url)
        during = await agreed(rest)
        leader.send(signal.SIGCONT)
        after = await agreed(running)

        assert during["term"] > before["term"]
        assert after["leader"] == during["leader"]


async def test_a_node_that_leaves_hands_over_at_once(store_url: str, tmp_path: Path) -> None:
    async with nodes(store_url, tmp_path, 2, "--ttl-s", "60") as running:
        before = await agreed(running)
        leader = leader_of(running, before)
        [other] = [node for node in running if node is not leader]
        leader.send(signal.SIGTERM)
        assert await leader.wait() == 0
        after = await agreed([other])

        assert after["term"] > before["term"]


async def test_a_store_address_alone_is_enough_to_join_after_all_were_down(
    store_url: str, tmp_path: Path
) -> None:
    async with nodes(store_url, tmp_path, 2) as running:
        await agreed(running)
        assert command("config", "set", "slots", "7", "--store", store_url).returncode == 0
    async with nodes(store_url, tmp_path / "elsewhere", 1) as [node]:
        await agreed([node])

        async def listed_with_settings() -> bool:
            view = await node.cluster()
            return any(entry["token"] == view["node"] and entry["slots"] == 7 for entry in view["nodes"])

        await until(listed_with_settings)


async def test_a_restarted_node_keeps_its_name(tmp_path: Path) -> None:
    store_url = f"sqlite:///{tmp_path}/store.db"
    async with nodes(store_url, tmp_path, 1, "--ttl-s", "1") as [node]:
        first = await agreed([node])
        port = int(node.address.rsplit(":", 1)[1])
        await node.kill()
        await node.start(port)
        second = await agreed([node])

        assert first["node"] != second["node"]
        assert second["name"] == "n0"
        assert second["term"] > first["term"]


async def test_commands_read_the_store_without_a_node(store_url: str, tmp_path: Path) -> None:
    async with nodes(store_url, tmp_path, 1) as running:
        view = await agreed(running)

        assert shown("cluster", "show", "--store", store_url)["leader"] == view["leader"]
        assert [node["name"] for node in shown("node", "list", "--store", store_url)] == ["n0"]


async def test_a_taken_port_is_said_in_one_line(tmp_path: Path) -> None:
    async with nodes(f"sqlite:///{tmp_path}/store.db", tmp_path, 1) as [node]:
        port = node.address.rsplit(":", 1)[1]
        refused = command("up", "--port", port, "--data", str(tmp_path / "other"))

        assert refused.returncode == 1
        assert f"port {port}" in refused.stderr
        assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--store", "memory:"], "store"),
        (["--tls-cert", "/nowhere.pem", "--tls-key", "/nowhere.key"], "tls_cert"),
        (["--data", "/dev/null/data"], "/dev/null/data"),
    ],
)
def test_what_cannot_work_is_refused_before_the_node_joins(
    tmp_path: Path, flags: list[str], named: str
) -> None:
    data = [] if "--data" in flags else ["--data", str(tmp_path / "data")]
    refused = command("up", "--port", "0", *data, *flags)

    assert refused.returncode == 2
    assert named in refused.stderr
    assert "leader.gained" not in refused.stderr


def test_a_reader_that_has_read_enough_makes_no_noise(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    command("token", "create", "--role", "viewer", "--name", "me", "--store", url)
    piped = subprocess.run(
        f"{sys.executable} -m tidemill token list --store {url} | true; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=False,
    )

    assert piped.stderr == ""
    assert piped.returncode in (0, 1)


async def test_in_an_outage_nobody_is_named_leader(doomed_postgres: PostgresServer, tmp_path: Path) -> None:
    url = doomed_postgres.create_database("outage")
    async with nodes(url, tmp_path, 1, "--ttl-s", "1") as [node]:
        await agreed([node])
        doomed_postgres.kill()

        async def unready() -> bool:
            return await node.status("/readyz") == 503

        await until(unready)
        assert await node.status("/metrics") in (200, 503)
        doomed_postgres.start()
        after = await agreed([node])
        assert after["leader"] == after["node"]


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate that signs itself, and its key."""
    if shutil.which("openssl") is None and "CI" not in os.environ:
        pytest.skip("openssl, which makes the certificate, is not on this machine")
    chain, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    subprocess.run([*make, "-keyout", str(key), "-out", str(chain)], check=True, capture_output=True)
    return chain, key


async def test_a_node_with_a_certificate_speaks_tls_only(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    chain, key = certificate
    flags = ("--tls-cert", str(chain), "--tls-key", str(key))
    async with nodes(f"sqlite:///{tmp_path}/store.db", tmp_path, 1, *flags) as [node]:
        assert node.address.startswith("https://")
        trusted = ssl.create_default_context(cafile=str(chain))
        trusted.check_hostname = False
        async with httpx2.AsyncClient(base_url=node.address, verify=trusted) as client:
            assert (await client.get("/healthz")).status_code == 200
        async with httpx2.AsyncClient(base_url=node.address.replace("https", "http")) as client:
            with pytest.raises(httpx2.TransportError):
                await client.get("/healthz")
