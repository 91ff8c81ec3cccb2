"""group:web."""
