"""Plugins that behave, and plugins that do not. Loaded by runners, by dotted name."""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from tidemill.tasks.runner import current
from tidemill.tasks.runner.plugins import TaskView

MOMENT = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
"""What a process does that stays until it is killed: it says who it is."""


def call(payload: bytes) -> tuple[int, bytes]:
    """In place of a function: says what it was called with."""
    return (2, b"raised") if payload == b"raise" else (1, payload.upper())


class Greets:
    def __init__(self, task: TaskView) -> None:
        self.task = task

    def run(self) -> dict[str, Any]:
        print("hello", self.task.params)
        print("careful", file=sys.stderr)
        return {"status": 7, "stdout": "bye\n", "stderr": "gone\n", "result": {"queue": self.task.queue}}


def says_nothing(task: TaskView) -> None:
    pass


def tells(task: TaskView) -> dict[str, Any]:
    """What it can see of its task and of its process."""
    seen = [task.id, task.attempt, task.fence, task.queue, task.params]
    secrets = [name for name in os.environ if name.startswith("TIDEMILL_")]
    return {
        "status": 1,
        "result": {"task": seen, "pid": os.getpid(), "cwd": str(Path.cwd()), "secrets": secrets},
    }


def answers(task: TaskView) -> Any:
    return task.params


def raises(task: TaskView) -> None:
    raise ValueError("no such thing")


def leaves(task: TaskView) -> None:
    sys.exit("enough")


def reports(task: TaskView) -> None:
    for percent in range(100):
        current.report(percent, f"at {percent}")


def writes(task: TaskView) -> None:
    """So many bytes on both streams together, without a newline, from C and from Python."""
    block = b"x" * 65536
    for _ in range(task.params // 65536):
        os.write(1, block)
    sys.stdout.write("y" * (task.params % 65536))


def writes_and_waits(task: TaskView) -> None:
    writes(task)
    signal.pause()


def writes_binary(task: TaskView) -> None:
    sys.stdout.buffer.write(bytes(range(256)))
    subprocess.run(["printf", r"\377"], check=True)


def says_and_waits(task: TaskView) -> None:
    print("ready")
    signal.pause()


def hangs(task: TaskView) -> None:
    signal.pause()


def will_not_end(task: TaskView) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("ready")
    while True:
        signal.pause()


def leaves_a_process(task: TaskView) -> None:
    """One that is in a session of its own, as a daemon is."""
    command = [sys.executable, "-c", MOMENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        print(process.stdout.readline().decode(), end="")
        process.returncode = 0
        if task.params == "hang":
            signal.pause()


def leaves_a_copy(task: TaskView) -> None:
    os.fork()


def leaves_a_thread(task: TaskView) -> None:
    threading.Thread(target=threading.Event().wait, daemon=True).start()


def moves(task: TaskView) -> None:
    os.chdir("/")


def moves_to_nowhere(task: TaskView) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)


def redecorates(task: TaskView) -> None:
    """Changes, removes and adds a variable, and lets files be for nobody."""
    os.environ["PATH"] = "/nowhere"
    os.environ.pop("HOME", None)
    os.environ["LEFT_BEHIND"] = "yes"
    os.umask(0o777)


def surroundings(task: TaskView) -> dict[str, Any]:
    umask = os.umask(0)
    os.umask(umask)
    seen = {name: os.environ.get(name) for name in ("PATH", "HOME", "LEFT_BEHIND")}
    shell = subprocess.run(["/bin/sh", "-c", "echo $PATH"], check=True, capture_output=True, text=True)
    return {"status": 1, "result": {**seen, "shell": shell.stdout.strip(), "umask": umask}}


def listens_to_signals(task: TaskView) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def sets_an_alarm(task: TaskView) -> None:
    signal.alarm(600)


def closes_output(task: TaskView) -> None:
    os.close(1)


def finds_the_disk_full(task: TaskView) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    print("z" * 100_000)


def is_killed(task: TaskView) -> None:
    print("last words", flush=True)
    os.kill(os.getpid(), getattr(signal, task.params))


def exits_at_once(task: TaskView) -> None:
    os._exit(task.params)


def takes_memory(task: TaskView) -> None:
    held = bytearray(b"x") * (task.params * 1_000_000)
    signal.pause()
    del held


def babbles(task: TaskView) -> None:
    """Writes into every socket that it can find."""
    for fd in range(3, 1024):
        try:
            os.write(fd, b"\x03\x00\x00\x00zzz")
        except OSError:
            pass


not_callable = 5
