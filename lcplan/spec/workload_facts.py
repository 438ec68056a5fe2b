"""WorkloadFacts: the record that a kind of workload has, as a class attribute of its noun."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WorkloadFacts:
    """Facts of one kind of workload that its parser, its questions and its reports read."""

    label: str
    """The kind as a phrase in messages: ``a train step``."""
    unit: str
    """The unit that one ``step_s`` of an answer lasts for: ``step``, ``rollout`` or ``iteration``."""
    needs: tuple[str, ...]
    """Options that a request cannot leave out."""
    sizes: tuple[str, ...]
    """Fields that give the tokens of one sequence."""
    batch_field: str
    """Field, and option, that counts the sequences."""
    windows: bool
    """Whether its attention may keep to a sliding window shorter than the sequence."""
    figures: tuple[str, ...] = ()
    """Figures that its estimates have beyond those of every estimate."""
