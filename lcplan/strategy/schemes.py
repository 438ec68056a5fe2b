"""Context schemes: one record for each way in which queries reach the keys and values of other context ranks.

Rules, cost model, programs and trainers ask a record for its facts and never compare names, so that a new scheme costs a record
here, a program in ``strategies/schemes`` and, where no existing one fits its facts, a module in ``cost_models/schemes``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

Scheme = Literal["ring", "ring-zigzag", "all-gather", "ulysses", "ulysses-ring"]

Exchange = Literal["nothing", "groups", "context"]
"""Which ranks exchange heads for tokens: no ranks, neighbours in groups (knob ``ulysses``), or the whole context axis."""


@dataclass(frozen=True)
class SchemeFacts:
    """Facts about one scheme, for full causal attention; a windowed layer brings halos in place of rings and gathers."""

    name: Scheme
    summary: str
    """One line for people."""
    rings: bool = False
    """Keys and values travel round a ring of ranks, or of groups that exchange heads."""
    gathers: bool = False
    """Every rank gathers the keys and values of all ranks."""
    exchange: Exchange = "nothing"
    balanced: bool = False
    """A rank, or a group that exchanges heads, holds a half chunk from the front and one from the back of the sequence, so that
    causal attention is the same work for all."""

    def __post_init__(self) -> None:
        """Keys and values reach other ranks in one way, an exchange of heads apart."""
        assert self.rings + self.gathers <= 1, f"{self.name}: a scheme rings or gathers"
        assert self.rings or self.gathers or self.exchange == "context", f"{self.name}: keys never reach other ranks"

    @property
    def chunks_per_rank(self) -> int:
        """Pieces of the sequence that a rank, or a group that exchanges heads, holds: 2 half chunks where work is balanced."""
        return 2 if self.balanced else 1

    @property
    def groups(self) -> bool:
        """Whether neighbours exchange heads in groups, whose size is the knob ``ulysses``."""
        return self.exchange == "groups"

    @property
    def sees_whole_sequences(self) -> bool:
        """Whether each rank attends over whole sequences for its share of the heads, so that a window needs no halo."""
        return self.exchange == "context"


_ALL = (
    SchemeFacts("ring", "contiguous chunks travel round a ring; the last rank works longest", rings=True),
    SchemeFacts("ring-zigzag", "two half chunks a rank travel round a ring; balanced", rings=True, balanced=True),
    SchemeFacts("all-gather", "every rank gathers all keys and values; balanced", gathers=True, balanced=True),
    SchemeFacts("ulysses", "all ranks exchange tokens for heads, and back", exchange="context"),
    SchemeFacts(
        "ulysses-ring", "neighbours exchange heads, a ring joins their groups; balanced", True, exchange="groups", balanced=True
    ),
)

SCHEME_FACTS: MappingProxyType[Scheme, SchemeFacts] = MappingProxyType({facts.name: facts for facts in _ALL})
"""Every scheme by name, in the order of lists and codes."""

SCHEMES: tuple[Scheme, ...] = tuple(SCHEME_FACTS)


def schemes_where(fact: Callable[[SchemeFacts], bool]) -> tuple[Scheme, ...]:
    """Schemes that a fact is true of, in order.

    >>> schemes_where(lambda facts: facts.gathers)
    ('all-gather',)
    """
    return tuple(name for name, facts in SCHEME_FACTS.items() if fact(facts))


RING_SCHEMES: tuple[Scheme, ...] = schemes_where(lambda facts: facts.rings)
"""Schemes whose keys and values travel round a ring."""

GROUP_SCHEMES: tuple[Scheme, ...] = schemes_where(lambda facts: facts.groups)
"""Schemes whose neighbours exchange heads in groups, so that the knob ``ulysses`` is above 1."""

GROUP_SCHEME_NAMES = ", ".join(GROUP_SCHEMES)
"""The same, as messages name them."""

DEFAULT_SCHEME: Scheme = "ring-zigzag"
"""The scheme of a strategy that names no other."""

assert set(SCHEME_FACTS) == set(get_args(Scheme))
