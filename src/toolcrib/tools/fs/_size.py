"""Sizes in words."""

__all__ = ["size"]


def size(count: int) -> str:
    """Return a number of bytes as people read it, in steps of 1,024."""
    if count < 1 << 10:
        return f"{count}B"
    return f"{count / (1 << 10):.1f}KB" if count < 1 << 20 else f"{count / (1 << 20):.1f}MB"
