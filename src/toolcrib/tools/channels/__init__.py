"""group:channels."""
