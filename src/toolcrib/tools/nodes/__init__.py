"""group:nodes: paired devices."""
