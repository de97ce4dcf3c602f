"""A driver without Spark: what it does is the story in TIDEMILL_TEST_STORY, a phase a word."""

import os
import sys

import msgspec

from tidemill.app.demo.figures import Figures, ViewFigures


def tell(figures: Figures) -> None:
    sys.stdout.write(msgspec.json.encode(figures).decode() + "\n")
    sys.stdout.flush()


def main() -> None:
    folder, *sql = sys.argv[1:]
    sys.stderr.write(f"{folder} {sql}\nsome noise\n")
    for word in os.environ["TIDEMILL_TEST_STORY"].split():
        match word:
            case "run":
                tell(Figures("running", views=(ViewFigures("sales", checked=1),)))
            case "heed":
                sys.stdin.readline()
            case "right":
                tell(Figures("finished", steps=3, views=(ViewFigures("sales", checked=2),)))
            case "wrong":
                tell(Figures("finished", steps=3, views=(ViewFigures("sales", checked=2, wrong=1),)))
            case "java":
                tell(Figures("failed", "found no Java", "pipeline.no_java"))
            case "crash":
                tell(Figures("failed", "KeyError: 3"))


main()
