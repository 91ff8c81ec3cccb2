"""Voices: who speaks a text, and who writes down what was said."""
