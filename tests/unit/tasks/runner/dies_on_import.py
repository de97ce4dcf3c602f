"""A plugin that ends whoever loads it, at once."""

import os

os._exit(4)
