"""Where a worker connects, and as whom."""

from pathlib import Path

import pytest

from tidemill.worker import address
from tidemill.worker.address import addresses, machine_identity, machine_name
from tidemill.worker.errors import BadAddress


@pytest.mark.parametrize(
    ("url", "queue", "expected"),
    [
        ("http://localhost:7433", None, "ws://localhost:7433/api/worker"),
        ("https://example.org/", "shout", "wss://example.org/api/worker/shout"),
        ("https://example.org/mill/", "a/b c", "wss://example.org/mill/api/worker/a%2Fb%20c"),
        ("ws://[::1]:7433", "shout", "ws://[::1]:7433/api/worker/shout"),
        ("wss://example.org/a/b", None, "wss://example.org/a/b/api/worker"),
        ("https://ada:secret@example.org?x=1", None, "wss://ada:secret@example.org/api/worker?x=1"),
    ],
)
def test_the_address_of_a_node_becomes_that_of_its_workers(
    url: str, queue: str | None, expected: str
) -> None:
    assert addresses(url, queue) == [expected]


def test_several_addresses_keep_their_order() -> None:
    assert addresses(["http://b", "http://a"], "q") == ["ws://b/api/worker/q", "ws://a/api/worker/q"]


@pytest.mark.parametrize(
    "url", ["localhost:7433", "ftp://example.org", "http://", "http://a:b", "http://[", "x"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(BadAddress, match="is no address of a node"):
        addresses(url, None)


@pytest.mark.parametrize("url", ["localhost:7433", "example.org", "10.0.0.1:7433/mill", "[::1]:7433"])
def test_an_address_without_a_scheme_is_told_with_one(url: str) -> None:
    with pytest.raises(BadAddress) as refused:
        addresses(url, None)

    assert f"did you mean 'http://{url}'?" in str(refused.value)
    assert addresses(f"http://{url}", None)


@pytest.mark.parametrize("url", ["ftp://example.org", "http://", ""])
def test_what_a_scheme_does_not_mend_is_told_with_an_example(url: str) -> None:
    with pytest.raises(BadAddress, match="such as https://"):
        addresses(url, None)


def test_no_address_is_refused_too() -> None:
    with pytest.raises(BadAddress):
        addresses([], None)


def test_an_identity_is_the_machines_and_the_queues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "machine-id").write_text("4c4c4544\n")
    monkeypatch.setattr(address, "_MACHINE_ID", tmp_path / "machine-id")
    assert machine_identity("shout") == "4c4c4544-shout"
    assert machine_identity(None) == "4c4c4544"

    monkeypatch.setattr(address, "_MACHINE_ID", tmp_path / "none")
    assert machine_identity("shout") == f"{machine_name()}-shout"
