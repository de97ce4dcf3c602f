"""A plugin that ends whoever loads it, politely."""

raise SystemExit(3)
