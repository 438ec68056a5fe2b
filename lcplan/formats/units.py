"""The one place where GiB, TFLOP/s and ``256k`` exist: it parses user input and formats output.

Everything inside lcplan is bytes, seconds, FLOP and tokens.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal

from lcplan.formats.errors import BadInputError

KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40
_BYTES = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": KIB,
    "mib": MIB,
    "gib": GIB,
    "tib": TIB,
}
_TOKENS = {"": 1, "k": 2**10, "m": 2**20}
_NUMBER = re.compile(r"\s*([+-]?[0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)\s*([a-z]*)\s*", re.IGNORECASE)


_SECONDS: dict[str, int | Decimal] = {"": 1, "s": 1, "ms": Decimal("1e-3"), "us": Decimal("1e-6"), "ns": Decimal("1e-9")}
_FLOP = {"": 1, "flop": 1, "gflop": 10**9, "tflop": 10**12, "pflop": 10**15}
_WATT = {"": 1, "w": 1, "kw": 1000}
ROUNDS_UP = 0.9995
"""The part of the next unit from which three digits would read 1000."""
_LARGEST = 2.0**70
"""Above any size, rate or count that lcplan knows; larger inputs are typing errors."""


def _quantity(text: str, suffixes: Mapping[str, int | Decimal], *, what: str, example: str) -> Decimal:
    """A number above zero with one of the suffixes, exactly; ``/s`` behind the suffix is dropped where the example has it."""
    match = _NUMBER.fullmatch(re.sub(r"\s*/\s*s\s*$", "", text) if example.endswith("/s") else text)
    if not match or match[2].lower() not in suffixes:
        known = ", ".join(s for s in suffixes if s)
        raise BadInputError(
            f"{what} {text!r:.60} is not a number with an optional suffix ({known}); write for example {example}"
        )
    if not abs(float(match[1])) <= _LARGEST:
        raise BadInputError(f"{what} {text!r:.60} is too large; write for example {example}")
    value = Decimal(match[1]) * suffixes[match[2].lower()]
    if value <= 0:
        raise BadInputError(f"{what} {text!r:.60} is not above zero; write for example {example}")
    if value > _LARGEST:
        raise BadInputError(f"{what} {text!r:.60} is too large; write for example {example}")
    return value


def _whole(text: str, suffixes: Mapping[str, int | Decimal], *, what: str, example: str) -> int:
    value = _quantity(text, suffixes, what=what, example=example)
    if value != int(value) and value < MIB:  # 1.7GiB is no whole number of bytes and means what it says
        raise BadInputError(f"{what} {text!r:.60} is not a whole number; write for example {example}")
    return int(value)


def parse_bytes(text: str, what: str = "size") -> int:
    """``80GiB``, ``80GB`` or plain bytes, in bytes.

    >>> parse_bytes("80GiB") == 80 * 2**30
    True
    """
    return _whole(text, _BYTES, what=what, example="80GiB")


def parse_tokens(text: str, what: str = "sequence length") -> int:
    """``262144``, ``256k`` (k = 1024) or ``1m``, in tokens.

    >>> parse_tokens("256k")
    262144
    """
    return _whole(text, _TOKENS, what=what, example="262144, 256k or 1m")


def parse_bytes_per_s(text: str, what: str = "bandwidth") -> float:
    """Parse ``25GB/s`` or a plain number of bytes/s into bytes/s. Bits are refused: give bytes.

    >>> parse_bytes_per_s("25GB/s")
    25000000000.0
    """
    return float(_quantity(text, _BYTES, what=what, example="25GB/s"))


def parse_flop_per_s(text: str, what: str = "compute rate") -> float:
    """Parse ``989TFLOP/s`` or a plain number of FLOP/s into FLOP/s.

    >>> parse_flop_per_s("989 TFLOP/s")
    989000000000000.0
    """
    return float(_quantity(text, _FLOP, what=what, example="989TFLOP/s"))


def parse_seconds(text: str, what: str = "time") -> float:
    """``5us`` or plain seconds, in seconds.

    >>> parse_seconds("5us")
    5e-06
    """
    return float(_quantity(text, _SECONDS, what=what, example="5us"))


def parse_watts(text: str, what: str = "power") -> float:
    """``700W`` or plain watts, in watts.

    >>> parse_watts("1.2kW")
    1200.0
    """
    return float(_quantity(text, _WATT, what=what, example="700W"))


def format_bytes(value: float) -> str:
    """Bytes as a person reads them.

    >>> format_bytes(80 * 2**30)
    '80.0 GiB'
    """
    for unit, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(value) >= unit:
            return f"{value / unit:.1f} {name}"
    return f"{value:.0f} B"


def format_seconds(value: float) -> str:
    """Seconds with a unit that fits the size.

    >>> format_seconds(0.0123)
    '12.3 ms'
    """
    if not math.isfinite(value):
        return "-"
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if abs(value) >= ROUNDS_UP * unit:
            return f"{three_digits(value / unit)} {name}"
    return f"{value:.3g} s"


def three_digits(value: float) -> str:
    """A number with three significant digits, and all digits before the point; never with an exponent.

    >>> three_digits(24.06), three_digits(3612.4)
    ('24.1', '3612')
    """
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"


def format_tokens(value: int) -> str:
    """Tokens with k = 1024 and m = 1024 k where that is exact.

    >>> format_tokens(262144), format_tokens(1000)
    ('256k', '1000')
    """
    if value % 2**20 == 0:
        return f"{value // 2**20}m"
    if value % 2**10 == 0:
        return f"{value // 2**10}k"
    return str(value)


def format_count(value: float) -> str:
    """A large count in words of three digits.

    >>> format_count(8_030_261_248)
    '8.03 B'
    """
    for unit, name in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= ROUNDS_UP * unit:
            return f"{three_digits(value / unit)} {name}"
    return f"{value:.0f}"
