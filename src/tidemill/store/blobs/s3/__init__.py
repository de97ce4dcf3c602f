"""Blobs in a bucket of Amazon S3, or of any server that speaks its protocol with conditional writes.

    <prefix>/tidemill-blobs      says that blobs lie here, and of which format
    <prefix>/blobs/<name>        a blob: its stored form, then the mark of this publication, 16 random bytes

The mark gives each publication an entity tag of its own, so that everything is compare-and-set: who publishes
says "if nothing is there" or "if what I saw is there", who sweeps says "if it is still the old one", and who
lost the answer to a publication finds its own mark.

Read `bucket` (requests, and what their errors mean), `upload` (drafts), `download` (reading), `shelf`.
"""

from tidemill.store.blobs.s3.bucket import Bucket
from tidemill.store.blobs.s3.shelf import S3Shelf

__all__ = ["S3Shelf", "Bucket"]
