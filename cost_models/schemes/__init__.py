"""Laws of context schemes, found by a scheme's facts: its collectives over context and its buffers of keys and values."""

from cost_models.schemes.exchange import EXCHANGE
from cost_models.schemes.gather import GATHER
from cost_models.schemes.interface import SchemeLaw
from cost_models.schemes.ring import RING

SCHEME_LAWS: tuple[SchemeLaw, ...] = (RING, GATHER, EXCHANGE)
"""Every law; each counts nothing in rows whose scheme does not have its fact, so that laws add up for schemes that mix them."""

__all__ = ["EXCHANGE", "GATHER", "RING", "SCHEME_LAWS", "SchemeLaw"]
