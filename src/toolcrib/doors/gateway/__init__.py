"""The gateway: WebSocket and HTTP in one process, and nothing without a credential."""
