"""Subagents on the shelf, declared as data."""
