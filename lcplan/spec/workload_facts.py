"""WorkloadFacts: the record that a kind of workload has, as a class attribute of its noun."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class WorkloadFacts:
    """Facts of one kind of workload that its parser, its questions and its reports read."""

    label: str
    """The kind as a phrase in messages: ``a train step``."""
    unit: str
    """The unit that one ``step_s`` of an answer lasts for: ``step``, ``rollout`` or ``iteration``."""
    options: tuple[str, ...]
    """Options of its sizes, of its batch and of how it runs; knobs have records of their own."""
    needs: tuple[str, ...]
    """Options that a request cannot leave out."""
    example: str
    """Values of these options, as a person types them."""
    instead: Mapping[str, str]
    """The end of a sentence about this kind (``takes --batch``), by option of another kind."""
    sizes: tuple[str, ...]
    """Fields that give the tokens of one sequence."""
    batch_field: str
    """Field, and option, that counts the sequences."""
    trained: bool
    """Whether it has a train step."""
    figures: tuple[str, ...] = ()
    """Figures that its estimates have beyond those of every estimate."""
