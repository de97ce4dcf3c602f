"""Workers behind proxies, over TLS and with tokens, at a real node."""

import asyncio
import json
import os
import shlex
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from tidemill.worker import Worker
from upnode import UpNode, upnode


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 and its key."""
    made, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=node"
    )
    place = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(made)]
    subprocess.run([*shlex.split(command), *place], check=True, capture_output=True)
    return made, key


@pytest.fixture
def node(tmp_path: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[UpNode]:
    """A node with TLS below a path prefix."""
    monkeypatch.setenv("TIDEMILL_TLS_CERT", str(certificate[0]))
    monkeypatch.setenv("TIDEMILL_TLS_KEY", str(certificate[1]))
    monkeypatch.setenv("TIDEMILL_PATH_PREFIX", "/mill")
    with upnode(f"sqlite:///{tmp_path}/store.db", tmp_path, "alpha") as started:
        yield started


@asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[None]:
    task = asyncio.create_task(worker.serve())
    try:
        yield
    finally:
        worker.stop()
        await task


def token(tmp_path: Path, role: str) -> str:
    command = [sys.executable, "-m", "tidemill", "token", "create", "--role", role, "--name", role, "--json"]
    store = f"sqlite:///{tmp_path}/store.db"
    made = subprocess.run([*command, "--store", store], check=True, capture_output=True, env=dict(os.environ))
    secret: str = json.loads(made.stdout)["secret"]
    return secret


async def test_a_worker_comes_through_tls_a_prefix_and_a_token(
    node: UpNode, tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    secrets = {role: token(tmp_path, role) for role in ("worker", "operator")}
    url = f"{node.address}/mill"
    shouting = Worker(url, lambda job: job.payload.upper(), token=secrets["worker"], ca=certificate[0])
    headers = {"Authorization": f"Bearer {secrets['operator']}"}
    async with httpx2.AsyncClient(
        verify=ssl.create_default_context(cafile=certificate[0]), headers=headers, timeout=30
    ) as client:
        async with working(shouting):
            sent = await client.post(
                f"{url}/api/jobs/submit", data={"priority": "batch"}, files={"payload": b"quiet"}
            )
            job = sent.json()["id"]
            done = await client.get(f"{url}/api/v1/batches/default/1/wait", params={"timeout": 30})
            assert done.json()["done"]
            result = await client.get(f"{url}/api/jobs/{job}/result")
            assert result.content == b"QUIET"
