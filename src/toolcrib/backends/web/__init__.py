"""The web: one guard, which judges by address, and what goes out through it."""
