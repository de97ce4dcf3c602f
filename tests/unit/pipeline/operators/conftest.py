"""Every operator is tested on the plain model of a spine and on the real one."""

from collections.abc import Callable
from typing import Any

import pytest

from tidemill.pipeline.state.files import RunFiles
from tidemill.pipeline.state.spec import Part, StateSpec
from tidemill.pipeline.state.spine import Spine
from tidemill.pipeline.testing import ModelSpine
from tidemill.store.blobs import open_blobs


@pytest.fixture(scope="session", params=["model", "real"])
def open_spine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[StateSpec], Any]:
    if request.param == "model":
        return ModelSpine
    files = RunFiles(open_blobs(tmp_path_factory.mktemp("runs"), create=True))
    return lambda spec: Spine(spec, Part(), files)
