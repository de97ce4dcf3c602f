"""Tidemill keeps answers fresh and work done, coordinated by nothing but a database."""

__version__ = "0.1.0"
