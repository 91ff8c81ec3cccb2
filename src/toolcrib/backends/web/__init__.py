"""The web: the way out, and whom to ask."""
