"""The worker: a program that takes tasks over WebSocket and has no database access.

It installs alone, on base only.
"""
