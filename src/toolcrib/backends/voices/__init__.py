"""Voices: providers that speak a text, and those that transcribe a recording."""
