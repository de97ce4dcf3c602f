"""The root of every error that Tidemill raises.

TidemillError
├─ StoreError     the database refused, lost or could not be reached    (tidemill.store.errors)
├─ BlobError      a blob is missing, damaged or cannot be written       (tidemill.store.blobs)
├─ ClusterError   a lease was lost, a node was refused                  (tidemill.cluster.errors)
├─ WorkerError    a remote worker cannot go on, or its job cannot       (tidemill.worker.errors)
└─ SettingError   a setting has a value that is not allowed             (tidemill.app.settings)

Every class has a stable `code`. Programs match on the class or the code, people read the message.
"""

from typing import ClassVar


class TidemillError(Exception):
    """Something that Tidemill can name went wrong. The message is one line."""

    code: ClassVar[str] = "tidemill"
