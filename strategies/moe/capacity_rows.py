"""Number of rows in the buffers of a mixture of experts, as plain integers. docs/step.md and the cost model count the same."""

from __future__ import annotations

from dataclasses import dataclass

from strategies.inputs.step_spec import StepSpec

BLOCK_ROWS = 1024
"""Rows that one product of a block loop takes (strategies.moe.products)."""


@dataclass(frozen=True)
class RowCapacity:
    """Sizes on one device, from U tokens of its context rank."""

    tokens: int
    """U."""
    chosen: int
    """k, experts of a token."""
    experts: int
    """E, experts of all ranks."""
    ranks: int
    """Size of the expert axis."""
    percent: int
    """``moe_capacity_percent``; 0: the worst case."""

    @classmethod
    def of(cls, spec: StepSpec, tokens: int) -> RowCapacity:
        """Return the capacity for ``tokens`` of a context rank."""
        experts = spec.model.experts
        assert experts is not None
        strategy = spec.strategy
        return cls(tokens, experts.active, experts.count, strategy.mesh.expert, strategy.moe_capacity_percent)

    @property
    def assigned(self) -> int:
        """U k: rows that the rank's tokens send, and that a rank receives of a balanced load."""
        return self.tokens * self.chosen

    @property
    def own(self) -> int:
        """Experts of one rank."""
        return self.experts // self.ranks

    @property
    def rows(self) -> int:
        """Rows that a rank can receive. A single rank receives its own rows."""
        if self.ranks == 1:
            return self.assigned
        worst = self.ranks * self.tokens * min(self.chosen, self.own)
        return min(worst, -(-self.assigned * self.percent // 100)) if self.percent else worst

    @property
    def pair_rows(self) -> int:
        """Rows that one rank can send to one other, where the all-to-all has a fixed size for each pair."""
        worst = self.tokens * min(self.chosen, self.own)
        return min(worst, -(-self.rows // self.ranks))

    @property
    def expert_rows(self) -> int:
        """``capacity``: rows that one rank can send to one expert; a token sends it one at most."""
        if not self.percent:
            return self.tokens
        return min(self.tokens, -(-self.assigned * self.percent // (100 * self.experts)))


def block_rows(capacity: RowCapacity) -> int:
    """Rows of one block: fewer where there are no more."""
    return min(BLOCK_ROWS, capacity.rows)
