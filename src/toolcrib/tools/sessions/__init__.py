"""group:sessions."""
