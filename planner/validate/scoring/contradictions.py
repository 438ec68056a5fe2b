"""Contradictions: runs said to be out of memory beside one of the same source that needed at least as much and ran.

No law in which memory grows with what decides it is right about both, so that such a verdict is counted apart. It is found by
what the rows state, whatever the laws say of them: the same model, device, trainer, scheme and tensor; as many tokens a device
or more; state over as many devices or fewer; and everything kept that the other run keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cost_models.inputs.setting import Setting
from lcplan.strategy.remat import NAMED_TENSORS, REMAT_POLICIES
from planner.validate.choices import Case
from planner.validate.sources.facts import Facts


@dataclass(frozen=True)
class _Need:
    """What decides a row's memory on each device."""

    same: tuple[object, ...]
    tokens: float
    shards: int
    kept: frozenset[str]

    def covers(self, other: _Need) -> bool:
        """Whether this run needs at least as much of everything as ``other``."""
        enough = self.tokens >= other.tokens and self.shards <= other.shards and self.kept >= other.kept
        return self.same == other.same and enough


def contradictions(facts: Sequence[Facts], cases: Sequence[Case]) -> dict[str, str]:
    """For each row that ran out of memory, the first row that needed at least as much and ran, where there is one."""
    needs = [_need(case) for case in cases]
    verdicts = [fact.row.measured.fits for fact in facts]
    ran = [index for index, fits in enumerate(verdicts) if fits]
    found: dict[str, str] = {}
    for index, fits in enumerate(verdicts):
        if fits is False:
            beside = next((other for other in ran if needs[other].covers(needs[index])), None)
            if beside is not None:
                found[facts[index].row.id] = facts[beside].row.id
    return found


def _need(case: Case) -> _Need:
    setting, strategy = case.setting, case.strategy
    mesh = strategy.mesh
    ranks = mesh.data * mesh.fsdp * mesh.context * mesh.expert
    same = (setting.model, setting.hardware.device, setting.program, strategy.scheme, mesh.tensor, setting.workload.precision)
    tokens = setting.workload.tokens / (ranks * strategy.microbatches)
    return _Need(same, tokens, mesh.devices, _kept(setting, strategy.remat))


def _kept(setting: Setting, remat: str) -> frozenset[str]:
    """Named tensors of a layer that are there for the backward pass on the device."""
    if setting.program.saved is not None:
        return frozenset(setting.program.saved)
    kept = REMAT_POLICIES[remat].kept
    return frozenset(NAMED_TENSORS if remat == "save-all" else kept)
