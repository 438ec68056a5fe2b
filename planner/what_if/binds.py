"""Binds: the limits of a longer, larger, smaller or faster answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from cost_models.estimate import EstimateTable
from cost_models.parts.find import memory_label, time_label
from lcplan.formats.units import format_bytes, format_seconds
from lcplan.strategy import Strategy
from planner.candidates.candidate import Candidate
from planner.request.request_changes import Ask
from planner.rules import Rule
from planner.space.analysis import setting_of
from planner.space.meshes import keeping, mesh_table
from planner.space.shapes import Ints
from planner.workloads.registry import planned

NUMBERS_RULES = frozenset({"batch", "sequence"})
"""Rules about the workload's own numbers: without them a strategy would have parts of sequences, and mean nothing."""


@dataclass(frozen=True)
class Binds:
    """``name`` is a memory part, a time part or a rule; ``says`` is the sentence with the figures."""

    kind: Literal["memory", "time", "rule"]
    name: str
    says: str

    @property
    def label(self) -> str:
        """The name as a person reads it."""
        if self.kind == "rule":
            return self.name
        return memory_label(self.name) if self.kind == "memory" else time_label(self.name)


def memory_binds(miss: Candidate, budget_bytes: int) -> Binds:
    """The largest part of the strategy that comes closest and does not fit."""
    parts = {name: value for name, value in miss.estimate["memory_bytes"].items() if name != "total"}
    name = max(parts, key=lambda part: parts[part])
    need = miss.estimate["memory_bytes"]["total"] + miss.estimate["allowance_bytes"]
    return Binds(
        "memory",
        name,
        f"{memory_label(name)}, {format_bytes(parts[name])} of the {format_bytes(need)} that the closest strategy "
        f"({miss.strategy.label}) needs in {miss.estimate['memory_phase'].replace('_', ' ')}; "
        f"the budget is {format_bytes(budget_bytes)}",
    )


def speed_binds(candidate: Candidate, estimates: EstimateTable, *, row: int, fastest: int) -> Binds:
    """The limit of a point's best strategy: memory, where a faster one does not fit, else its largest time part.

    ``row`` is the candidate's; ``fastest`` the row that would be best without a memory limit.
    """
    if estimates.step_s[fastest] < estimates.step_s[row]:
        name = estimates.binding_part(fastest)
        gain = float(estimates.step_s[row] / estimates.step_s[fastest])
        part, need = estimates.memory_bytes[name][fastest], estimates.total_bytes[fastest] + estimates.allowance_bytes[fastest]
        says = (
            f"a strategy {gain:.2f} times as fast needs {format_bytes(need)}, {format_bytes(part)} of it {memory_label(name)}"
        )
        return Binds("memory", name, says)
    parts = candidate.estimate["time_s"]
    name = max(parts, key=lambda part: parts[part])
    share = parts[name] / candidate.estimate["step_s"]
    return Binds("time", name, f"{time_label(name)} takes {format_seconds(parts[name])} of the step, {share:.0%}")


def rejecting_rule(ask: Ask, miss: Candidate | None) -> Binds | None:
    """The rule without which something would fit: of the meshes that only it rejects, the one that needs least memory.

    Meshes are tried with the knobs of ``miss``; rules about the workload's own numbers are not waived.
    """
    request = ask.request
    if miss is None:
        return None
    setting, workload = setting_of(request), planned(request)
    found: list[tuple[float, Rule, Strategy]] = []
    for rule in (rule for rule in workload.mesh_rules if rule.name not in NUMBERS_RULES):
        meshes = _only_rejected_by(rule, ask)
        if len(meshes):
            table, need = workload.need_on_meshes(setting, meshes, like=miss.strategy)
            row = int(np.argmin(need))
            found.append((float(need[row]), rule, table.strategy(row)))
    within = [one for one in found if one[0] <= request.budget_bytes]
    if not within:
        return None
    _, rule, strategy = min(within, key=lambda one: one[0])
    return Binds("rule", rule.name, f"{strategy.mesh.label} would fit, but {rule.explain(setting, strategy)}")


def _only_rejected_by(rule: Rule, ask: Ask) -> Ints:
    """Meshes that break this rule and no other."""
    setting = setting_of(ask.request)
    others = [other for other in planned(ask.request).mesh_rules if other is not rule]
    meshes = keeping(ask.request, setting, others, most_devices=ask.most_devices).meshes
    return meshes[rule.broken(setting, mesh_table(meshes))]


def no_strategy(ask: Ask) -> Binds:
    """Which rule left no strategy at all, by how many meshes it rejects."""
    setting, rules = setting_of(ask.request), planned(ask.request).mesh_rules
    screened = keeping(
        ask.request, setting, rules, most_devices=ask.most_devices, weigh=lambda shapes, splits: splits[0][shapes.ranks]
    )
    if len(screened.meshes):
        return Binds("rule", "knobs", "the rules on scheme, backend, microbatches and loss chunk leave no strategy")
    counts = screened.rejected.counts
    if not counts:
        return Binds("rule", "mesh", f"--mesh lets in no mesh of up to {ask.most_devices} devices")
    most = max(counts, key=lambda name: counts[name])
    return Binds("rule", most, screened.rejected.example(setting, most))
