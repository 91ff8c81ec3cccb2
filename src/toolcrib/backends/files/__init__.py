"""Files beneath one pinned root: resolved by the kernel, changed whole or not at all."""
