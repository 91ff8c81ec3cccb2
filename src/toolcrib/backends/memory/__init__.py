"""What is remembered, found again: chunks of Markdown in one SQLite file, and their vectors in one matrix beside it."""
