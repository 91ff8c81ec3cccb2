"""The command line."""

__all__ = ["EXIT_INTERRUPTED"]

EXIT_INTERRUPTED = 130  # as shells report a program that Ctrl-C ended
