"""Blocks of attention: how many tokens of a chunk a kernel takes at a time."""

from __future__ import annotations


def block_size(length: int, *, largest: int) -> int:
    """Tokens of a block: the largest divisor of ``length`` tokens up to ``largest``.

    >>> block_size(4096, largest=512), block_size(24, largest=7)
    (512, 6)
    """
    return next(size for size in range(min(length, largest), 0, -1) if length % size == 0)
