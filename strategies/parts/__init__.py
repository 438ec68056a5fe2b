"""Parts of a step as programs of their own: one product, feed-forward, attention call or collective, in each sharding mode."""

from strategies.parts.program import PartProgram, build_part

__all__ = ["PartProgram", "build_part"]
