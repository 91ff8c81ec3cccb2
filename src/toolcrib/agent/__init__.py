"""Runs turns: the belt of a caller, and the one place where a tool body runs."""
