"""States over small random data, beside a plain dictionary that says what must come out."""

from pathlib import Path

import pytest

from tidemill.pipeline.state.files import RunFiles, RunWriter
from tidemill.store.blobs import Blobs, open_blobs


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return open_blobs(tmp_path, create=True)


@pytest.fixture
def files(blobs: Blobs) -> RunFiles:
    return RunFiles(blobs)


@pytest.fixture
def writer(files: RunFiles) -> RunWriter:
    return RunWriter(files, "p", term=1, step=1)
