"""Spark clusters: Tidemill's own code is shipped to the executors, and they must see the pipeline's files."""

import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemill.base import version
from tidemill.base.ids import new_token
from tidemill.pipeline.errors import Refused
from tidemill.pipeline.runtimes.session import is_local
from tidemill.store.blobs import BlobError, Blobs

_SHIPPED = "tidemill.shipped"


def prepare_cluster(spark: SparkSession, blobs: Blobs) -> None:
    """Get the executors of a cluster ready. Nothing to do on a local master.

    Raises `Refused` when an executor cannot read what is written here: a pipeline's files must lie where all
    of them can.
    """
    if is_local(str(spark.sparkContext.master)):
        return
    _ship(spark)
    name = f"check/{new_token()}"
    blobs.put(name, b"seen")
    try:
        count = max(1, spark.sparkContext.defaultParallelism)
        frame = spark.range(0, count, 1, count).mapInArrow(Look(blobs, name), "seen boolean")
        try:
            seen = frame.toArrow().column(0).to_pylist()
        except PySparkException as error:
            reason = str(error).strip().splitlines()[-1]
            raise Refused(f"the executors cannot run pipelines: {reason}") from error
    finally:
        blobs.delete(name)
    if not all(seen):
        raise Refused("the executors do not see the pipeline's folder; use one that all machines share")


class Look:
    """Runs in Spark's tasks: whether a blob can be seen from there."""

    def __init__(self, blobs: Blobs, name: str) -> None:
        self.blobs = blobs
        self.name = name

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"seen": [self._sees()]})

    def _sees(self) -> bool:
        try:
            return self.blobs.find(self.name) is not None
        except BlobError:
            return False


def _ship(spark: SparkSession) -> None:
    """Send this package to the executors, once a session: they need only its libraries installed."""
    context = spark.sparkContext
    if context.getLocalProperty(_SHIPPED) == version.__version__:
        return
    folder = Path(version.__file__).parent.parent
    archive = Path(tempfile.mkdtemp(prefix="tidemill-")) / "tidemill.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for path in sorted(folder.rglob("*.py")):
            out.write(path, Path("tidemill") / path.relative_to(folder))
    context.addPyFile(str(archive))
    context.setLocalProperty(_SHIPPED, version.__version__)
