"""Route: the round trip of keys and values over the context axis.

Inside ``shard_map``: all lengths are local.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Array, Int, Shaped

from lcplan.strategy import Strategy
from strategies.parallel.collectives import shift
from strategies.parallel.mesh import CONTEXT
from strategies.parallel.ranks import axis_index, axis_size


@dataclass(frozen=True)
class Route:
    """A ring over every ``stride``-th context rank: neighbours up to the next one are in rings of their own."""

    stride: int = 1
    ways: tuple[int, ...] = (1,)
    """Directions of travel: 1 forwards, -1 backwards. Two directions share the heads."""

    @classmethod
    def of(cls, strategy: Strategy) -> Route:
        """The route of a strategy's ring."""
        return cls(strategy.ulysses, (1, -1) if strategy.bidirectional == "on" else (1,))

    def ranks(self) -> int:
        """Stops of the ring."""
        return axis_size(CONTEXT) // self.stride

    def place(self) -> Int[Array, ""]:
        """This rank's place in its ring."""
        return axis_index(CONTEXT) // self.stride

    def shift(self, x: Shaped[Array, ...], way: int) -> Shaped[Array, ...]:
        """Send ``x`` to the next stop in direction ``way``, and receive from the previous one."""
        return shift(x, CONTEXT, by=way * self.stride)
