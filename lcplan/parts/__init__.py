"""Parts: one product, feed-forward, attention call or collective, with shapes and shardings, as a program of its own."""

from lcplan.parts.communication import Move, Product, moves
from lcplan.parts.part import KINDS, Part, PartKind
from lcplan.parts.placed import Placed

__all__ = ["KINDS", "Move", "Part", "PartKind", "Placed", "Product", "moves"]
