"""group:media: pictures and speech."""
