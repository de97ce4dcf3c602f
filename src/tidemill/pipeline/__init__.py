"""Pipelines: tables, views and their circuit, advanced step by step; a step costs what changed."""
