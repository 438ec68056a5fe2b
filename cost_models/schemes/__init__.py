"""Cost models of context schemes, selected by a scheme's facts: collectives over context, and buffers of keys and values."""

from cost_models.schemes.exchange import EXCHANGE
from cost_models.schemes.gather import GATHER
from cost_models.schemes.interface import SchemeCost
from cost_models.schemes.ring import RING

SCHEME_COSTS: tuple[SchemeCost, ...] = (RING, GATHER, EXCHANGE)
"""All of them. Each counts 0 in rows whose scheme lacks its fact, so the costs of a scheme with several facts add up."""

__all__ = ["EXCHANGE", "GATHER", "RING", "SCHEME_COSTS", "SchemeCost"]
