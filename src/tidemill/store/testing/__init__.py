"""The suites that prove a backend, importable by anybody who writes one. They need pytest.

- `harness`   what a backend brings: clients of one empty database, and ways to hurt it
- `suite`     StoreSuite: the cases; subclass it, and give it a `harness` fixture
- `writes`, `leases`, `claims`, `queries`, `histories`   its parts
- `faults`    a backend that loses requests and answers on command
- `blobs`     BlobSuite: the same for blobs
"""
