"""Out: what reaches the disk, the network and other people's code."""
