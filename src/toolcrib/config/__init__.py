"""The configuration: one file, read once, checked whole, with a place for everything that can be wrong."""

from .load import Loaded, load
from .settings import Config

__all__ = ["Config", "Loaded", "load"]
