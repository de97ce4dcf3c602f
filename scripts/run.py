"""Starts the demo, with a Java runtime for Spark if one can be had; `make run` calls it."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

from tidemill.pipeline.runtimes.java import Java, find_java

ROOT = Path(__file__).resolve().parent.parent
NO_JAVA = "None could be installed (scripts/setup java says why): pipelines are off, tasks and cluster work."


def java_or_install() -> Java | None:
    """The machine's Java, else the one from the registry, else None."""
    java = find_java()
    if java is None:
        print("No Java 17 or 21 found; installing a runtime into .venv", flush=True)
        subprocess.run([ROOT / "scripts" / "setup", "java"], check=False, capture_output=True)
        importlib.invalidate_caches()
        java = find_java()
    return java


def main() -> None:
    """Becomes `tidemill demo`, so that a Ctrl-C reaches it and nothing else."""
    java = java_or_install()
    print(java or NO_JAVA, flush=True)
    environ = os.environ | ({"JAVA_HOME": str(java.home)} if java else {})
    tidemill = Path(sys.executable).with_name("tidemill")
    os.execve(tidemill, [str(tidemill), "demo", *sys.argv[1:]], environ)


main()
