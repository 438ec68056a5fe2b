"""Rejected strategies by rule, most first, each rule with one example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Rejection(NamedTuple):
    """A rule, how many strategies it is the first to reject, and the message to one of them."""

    rule: str
    strategies: str
    example: str


def rejections(rejected: Mapping[str, int], examples: Mapping[str, str]) -> tuple[Rejection, ...]:
    """Rows of the table of rejected strategies."""
    ordered = sorted(rejected.items(), key=lambda item: -item[1])
    return tuple(Rejection(rule, f"{count:,}", examples.get(rule, "")) for rule, count in ordered)
