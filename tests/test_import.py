"""Importing the package is cheap: what a caller may never use is not loaded."""

import json
import subprocess
import sys

HEAVY = {"apsw", "elasticsearch", "fastapi", "pandas", "psycopg", "pyarrow", "pymongo", "pyspark"}


def test_import_loads_neither_spark_nor_a_driver_nor_the_web() -> None:
    program = "import json, sys, tidemill; print(json.dumps(sorted(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(json.loads(answer.stdout))
    assert "tidemill" in loaded
    assert loaded & HEAVY == set()
