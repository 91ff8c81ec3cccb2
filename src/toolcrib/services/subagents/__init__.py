"""Subagents in the background: the service that doors and tools ask, and its runs."""
