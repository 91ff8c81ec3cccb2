"""The web: the way out, guarded by address, and whom to ask."""
