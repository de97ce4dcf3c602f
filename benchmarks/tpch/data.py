"""The rows of the tables, as the generator makes them for a scale factor; always the same ones."""

import subprocess
import sysconfig
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tpch.views import tables

GENERATOR = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"


def generate(scale: float, folder: Path) -> dict[str, Path]:
    """Write all tables, each as a Parquet file. Raises `CalledProcessError` when the generator fails."""
    options = ["--scale-factor", str(scale), "--output-dir", str(folder), "--quiet"]
    subprocess.run([GENERATOR, "parquet", *options], check=True)
    return {name: folder / f"{name}.parquet" for name in tables()}


def read(path: Path) -> pa.Table:
    """The rows of a file, with text in the form that can be put together with other text."""
    rows = pq.read_table(path)
    fields = [
        pa.field(f.name, pa.string() if pa.types.is_string_view(f.type) else f.type) for f in rows.schema
    ]
    return rows.cast(pa.schema(fields)).combine_chunks()
