"""A node behind a proxy that serves it below another path."""

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
