"""group:runtime: running commands."""
