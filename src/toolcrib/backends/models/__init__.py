"""Models behind HTTP: how they are asked, and how any answer is read. The mapping is in adapter/."""
