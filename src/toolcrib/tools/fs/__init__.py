"""group:fs."""
