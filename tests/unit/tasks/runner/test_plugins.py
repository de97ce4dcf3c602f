"""Which plugins a node may run, and where each is found."""

import pytest

from tidemill.tasks.runner import Job, NoPlugin, Plugins
from tidemill.tasks.runner.plugins import ProgramPlugin, PythonPlugin, TaskView, load


@pytest.mark.parametrize("name", ["json.decoder:JSONDecoder", "json.decoder.JSONDecoder"])
def test_a_dotted_name_that_is_allowed_is_found(name: str) -> None:
    assert Plugins([name]).find(name) == PythonPlugin("json.decoder:JSONDecoder")


@pytest.mark.parametrize("name", [None, "", "json.decoder:JSONDecoder", "os.system"])
def test_what_is_not_allowed_is_not_found(name: str | None) -> None:
    found = Plugins(["json.decoder:Other"]).find(name)

    assert found == NoPlugin(f"plugin {name!r} is not one that this node may run")


def test_a_name_from_another_language_needs_somebody_who_runs_it() -> None:
    name = "Disbatch::Plugin::Demo"
    assert Plugins([name]).find(name) == NoPlugin(f"plugin {name!r} is no name of something in Python")
    assert Plugins([name], task_runner="/usr/bin/task_runner").find(name) == ProgramPlugin(
        ("/usr/bin/task_runner", name)
    )


def test_a_package_that_is_not_installed_is_named() -> None:
    assert Plugins(["no_such_package.a:B"]).find("no_such_package.a:B") == NoPlugin(
        "plugin 'no_such_package.a:B': there is no package 'no_such_package' on this node"
    )


def test_a_program_is_mapped_by_name_and_that_comes_first() -> None:
    programs = {"words": ["perl", "words.pl"], "path": "/opt/run", "json:loads": "/opt/json"}
    plugins = Plugins(["json:loads"], programs, task_runner="/usr/bin/task_runner")

    assert plugins.find("words") == ProgramPlugin(("perl", "words.pl"))
    assert plugins.find("path") == ProgramPlugin(("/opt/run",))
    assert plugins.find("json:loads") == ProgramPlugin(("/opt/json",))


def test_names_are_those_that_can_be_run() -> None:
    plugins = Plugins(["json:loads", "no_such_package:f"], {"words": "/opt/words"})

    assert plugins.names() == ["json:loads", "words"]


def test_what_should_be_run_and_cannot_is_told_with_the_reason() -> None:
    plugins = Plugins(["json:loads", "no_such_package:f"])
    plugins.refuse("json:loads", "it is for others")

    assert plugins.names() == []
    assert plugins.find("json:loads") == NoPlugin("plugin 'json:loads': it is for others")
    assert plugins.broken() == {
        "json:loads": "plugin 'json:loads': it is for others",
        "no_such_package:f": "plugin 'no_such_package:f': there is no package 'no_such_package' on this node",
    }


def test_a_task_cannot_be_changed_by_its_plugin() -> None:
    task = TaskView(Job("id", 1, 2, "q", "plugin", "p", {}))
    for name in ("id", "attempt", "fence", "queue", "params", "other"):
        with pytest.raises(AttributeError):
            setattr(task, name, 5)


def test_what_is_not_callable_is_no_plugin() -> None:
    with pytest.raises(TypeError, match="neither a class nor a function"):
        load("unit.tasks.runner.acts:not_callable")
