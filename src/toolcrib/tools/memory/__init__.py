"""group:memory: what was noted in earlier conversations."""
