"""The allowed values nearest to a given one, in words for a message."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import log

SHOWN = 4
"""Number of values in a message."""


@lru_cache(maxsize=65536)
def divisors(number: int) -> tuple[int, ...]:
    """All divisors, ascending.

    >>> divisors(12)
    (1, 2, 3, 4, 6, 12)
    """
    low = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return tuple(sorted({*low, *(number // d for d in low)}))


def nearest(values: Iterable[int], given: int) -> str:
    """Name the values nearest to ``given`` by ratio, ascending.

    >>> nearest((1, 2, 4, 8, 16, 32), 12)
    '4, 8, 16 or 32'
    """
    near = sorted(values, key=lambda value: (abs(log(value / max(given, 1))), -value))[:SHOWN]
    words = [str(value) for value in sorted(near)]
    return " or ".join([*([", ".join(words[:-1])] if words[1:] else []), *words[-1:]])


def near_divisors(number: int, given: int, *, limit: int | None = None, step: int = 1) -> str:
    """Name the divisors of ``number`` nearest to ``given``: multiples of ``step`` up to ``limit``.

    >>> near_divisors(160_000, 1024)
    '800, 1000, 1250 or 1280'
    """
    most = number if limit is None else limit
    return nearest((value for value in divisors(number) if value <= most and value % step == 0), given)


def near_multiples(step: int, given: int, *, most: int | None = None) -> str:
    """Name the multiples of ``step`` just below and above ``given``, up to ``most``.

    >>> near_multiples(48, 131_072)
    '131040 or 131088'
    """
    below = (given if most is None else min(given, most)) // step * step
    return nearest((value for value in (below, below + step) if value > 0 and (most is None or value <= most)), given)
