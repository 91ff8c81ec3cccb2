"""group:web: search and pages."""
