"""The command `tidemill`: one file per noun, loaded when its noun is named.

Data goes to standard output, messages to standard error. Exit codes:

0 ok · 1 failed · 2 usage or a setting that is not allowed · 3 not found · 4 conflict · 5 refused by the door
6 the store cannot be reached · 7 doctor found problems · 130 interrupted
"""

import os
import sys

from tidemill.app.cli.exits import exit_code
from tidemill.app.cli.root import app
from tidemill.app.mask import masked_text
from tidemill.base.errors import TidemillError


def main() -> None:
    """Run the command line. An error that Tidemill can name is one line with its code, and no traceback."""
    try:
        try:
            app(prog_name="tidemill")
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read us has read enough. Nothing may be flushed to the closed pipe on the way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except TidemillError as error:
        sys.stderr.write(f"error: {masked_text(str(error))} [{error.code}]\n")
        sys.exit(exit_code(error.code))
    except OSError as error:
        sys.stderr.write(f"error: {masked_text(str(error))} [os]\n")
        sys.exit(1)
