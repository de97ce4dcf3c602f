"""Conformance suites that every backend runs."""
