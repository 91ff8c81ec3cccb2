"""The tests of toolcrib; they mirror src."""
