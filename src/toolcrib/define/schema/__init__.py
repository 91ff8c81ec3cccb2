"""What a tool takes: annotations and JSON Schema, and arguments checked against them."""
