"""The process that runs the demo's pipeline, a child of the node.

It tells its `Figures` on standard output. On standard input it is told to `finish`; when that input ends, so
does the process, whatever has become of its parent.
"""

import argparse
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TextIO

import msgspec

from tidemill.app.demo.figures import Figures
from tidemill.base.errors import TidemillError

_PATIENCE_S = 5.0


class Leash:
    """What is said on standard input. When that ends the process does too, at the latest after a while."""

    def __init__(self, source: TextIO) -> None:
        self.finish, self.end = threading.Event(), threading.Event()
        self._source = source
        threading.Thread(target=self._listen, name="leash", daemon=True).start()

    def _listen(self) -> None:
        for text in self._source:
            if text.strip() == "finish":
                self.finish.set()
        self.end.set()
        self.finish.set()
        time.sleep(_PATIENCE_S)
        os._exit(1)  # a pipeline survives that, and nobody waits for this one any more


def main() -> None:
    """Run the demo's pipeline in a folder; with a file of SQL, one by that, on invented rows."""
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=Path)
    options.add_argument("--sql", type=Path)
    given = options.parse_args()
    tell = _teller()
    leash = Leash(sys.stdin)
    try:
        tell(Figures("starting"))
        # By name, so that it can be told if Spark, or what comes with it, is not installed.
        stage = import_module("tidemill.app.demo.stage")
        stage.perform(given.folder, given.sql, tell, finish=leash.finish, end=leash.end)
    except TidemillError as error:
        tell(Figures("failed", str(error), error.code))
    except ModuleNotFoundError as error:
        tell(Figures("failed", f"{error}: pip install 'tidemill[spark,java]'", "demo.no_spark"))
    except Exception as error:
        traceback.print_exc()
        tell(Figures("failed", f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"))


def _teller() -> Callable[[Figures], None]:
    """Tells on what was standard output; whatever else is printed there goes to standard error now."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def tell(figures: Figures) -> None:
        out.write(msgspec.json.encode(figures) + b"\n")

    return tell


if __name__ == "__main__":
    main()
