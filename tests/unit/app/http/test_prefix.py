"""A node behind a proxy that serves it below another path."""

import re
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from tidemill.app.settings import Settings


@pytest.mark.parametrize(
    ("path", "found"), [("/mill/healthz", True), ("/healthz", True), ("/milling/healthz", False)]
)
async def test_paths_are_served_below_the_prefix_and_without_it(
    node: Any, make_client: Callable[[], httpx2.AsyncClient], path: str, found: bool
) -> None:
    node.settings = Settings(path_prefix="/mill")

    assert ((await make_client().get(path)).status_code == 200) == found


async def test_everything_that_the_page_refers_to_is_below_the_prefix(
    node: Any, make_client: Callable[[], httpx2.AsyncClient]
) -> None:
    node.settings = Settings(path_prefix="/mill")
    client = make_client()

    page = (await client.get("/mill/")).text
    links = re.findall(r'(?:href|src)="([^"]*)"', page)

    assert len(links) > 5
    assert all(link.startswith("/mill/") for link in links)
    assert {(await client.get(link)).status_code for link in links} <= {200, 503}  # it is not ready
    assert '<body data-prefix="/mill">' in page  # whence the script has it
