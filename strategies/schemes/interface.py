"""SchemeProgram: the attention of one context scheme, as every module of a scheme offers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from jaxtyping import Array, Float

from strategies.inputs.step_spec import StepSpec
from strategies.kernels.interface import ChunkKernel
from strategies.schemes.documents import Documents
from strategies.schemes.pattern import Pattern, pattern_of
from strategies.schemes.route import Route


@dataclass(frozen=True)
class AttentionCall:
    """Inputs of one attention call apart from queries, keys and values; ``kernel`` has the window of ``spec``."""

    spec: StepSpec
    kernel: ChunkKernel
    documents: Documents = None

    @property
    def pattern(self) -> Pattern:
        """Which kernel calls a chunk of another rank needs, in the layout of the strategy's scheme."""
        strategy = self.spec.strategy
        return pattern_of(strategy.scheme, self.kernel, route=Route.of(strategy))


class Attention(Protocol):
    """Causal attention of the local queries to the whole sequence, or to their documents. Inside ``shard_map``."""

    def __call__(
        self, q: Float[Array, "B T N H"], kv: Float[Array, "2 B T K H"], *, call: AttentionCall
    ) -> Float[Array, "B T N H"]:
        """Outputs in the order of the queries."""
        ...


@dataclass(frozen=True)
class SchemeProgram:
    """Programs of one scheme: for layers that attend to all tokens before a query, and for layers with a window."""

    full: Attention
    windowed: Attention
