"""Models behind HTTP: how they are asked, and what is made of whatever comes back. The mapping is in adapter/."""
