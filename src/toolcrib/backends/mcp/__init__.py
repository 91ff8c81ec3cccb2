"""Other people's MCP servers: the protocol and its two transports, read without trust and within bounds."""
