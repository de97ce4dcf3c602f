"""`python -m tidemill` is the command `tidemill`."""

from tidemill.app.cli import main

main()
