"""A browser: pages that an agent opens, reads and works on."""
