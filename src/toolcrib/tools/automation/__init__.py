"""group:automation: the gateway, and what it does by itself."""
