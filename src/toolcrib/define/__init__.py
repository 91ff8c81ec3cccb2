"""Layer 1: the words everybody uses. Nothing here touches a disk, a socket or a clock."""
