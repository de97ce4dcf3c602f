"""What comes with a worker, and what does not."""

import json
import subprocess
import sys

import pytest

FOREIGN = {"tidemill.store", "tidemill.cluster", "tidemill.tasks", "tidemill.api", "tidemill.app"}


def loaded(statement: str) -> set[str]:
    program = f"import json, sys; {statement}; print(json.dumps(sorted(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(answer.stdout))


def test_a_worker_stands_on_base_alone() -> None:
    modules = loaded("from tidemill.worker import Worker, Job, JobFailed, Refused, WorkerError, program")

    assert "tidemill.worker.client" in modules
    assert modules & FOREIGN == set()


def test_the_wire_comes_without_the_client() -> None:
    modules = loaded("import tidemill.worker.wire")

    assert {name for name in modules if name.startswith(("websockets", "tidemill.worker."))} == {
        "tidemill.worker.wire"
    }


def test_a_name_that_is_not_there_is_told() -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        loaded("from tidemill.worker import Nothing")

    assert "cannot import name 'Nothing'" in failed.value.stderr
