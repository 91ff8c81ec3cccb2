"""group:messaging."""
