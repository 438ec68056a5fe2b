"""An imported configuration, priced: the strategy, the trainer's needs beyond the cost model, and proposed changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.memory.pytorch import RESERVED_OF_ALLOCATED
from lcplan.spec.workload import Workload
from lcplan.strategy import Strategy
from planner.candidates.candidate import Candidate
from planner.imports.advice import Advice, Change, advise
from planner.imports.file_changes import file_advice
from planner.imports.step import PRICED
from planner.imports.trials import Question
from planner.request.request import SearchRequest
from planner.trainers import Difference, Job, trainer
from planner.trainers.common.imported import Imported
from planner.trainers.common.translate import further_logits
from planner.trainers.registry import form_of

NOT_OWN = (
    "memory is that of lcplan's own step, which holds less of a layer at once than autograd: published peaks of a mixture of "
    "experts under FSDP2 were 1 to 9 % higher, the more the longer the sequence (PrimeIntellect-ai/prime-rl#3234)"
)


OF_STATE = ("offload", "master-dtype")
"""Differences that take state off a device."""


@dataclass(frozen=True)
class Opinion:
    """lcplan's opinion of a configuration."""

    imported: Imported
    differences: tuple[Difference, ...]
    refusals: tuple[str, ...]
    """Rules of the trainer that it breaks: its validator may not notice."""
    memory_bytes: int
    """Modelled memory plus the bytes counted by hand."""
    allowance_bytes: int
    """Memory of runtime, communicators and PyTorch's pool on top of it."""
    host_bytes: int
    """Host memory of the devices of one host: checkpoints of remat, and state."""
    host_memory_bytes: int | None
    """Memory of a host; None: unknown."""
    fits: bool
    """Whether the devices and the host hold it, all of it is priced, and the trainer does not refuse it."""
    advice: Advice

    @property
    def host_holds(self) -> bool:
        """Whether a host's memory holds its part; True where its size is unknown."""
        return self.host_memory_bytes is None or self.host_bytes <= self.host_memory_bytes

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {
            "trainer": self.imported.trainer,
            "through": self.imported.through,
            "file": self.imported.file,
            "unknown_keys": list(self.imported.unknown),
            "notes": list(self.imported.notes),
            "refusals": list(self.refusals),
            "unpriced": list(self.imported.unpriced),
            "differences": [difference.model_dump(mode="json", exclude={"field"}) for difference in self.differences],
            "memory_bytes": self.memory_bytes,
            "allowance_bytes": self.allowance_bytes,
            "host_bytes": self.host_bytes,
            "host_memory_bytes": self.host_memory_bytes,
            "fits": self.fits,
            "would_change": self.advice.to_json(),
        }


def _beyond(imported: Imported, job: Job, *, priced: bool) -> list[Difference]:
    """List the trainer's needs beyond the priced ones; ``priced``: the cost model prices its own step."""
    target = trainer(imported.trainer)
    own = imported.more(job)
    whole = any(difference.name == "sharding" for difference in own)  # counts the bf16 parameters already
    found = [*own, *(usual for usual in target.extras(job) if not (whole and usual.name == "parameters"))]
    if priced:
        return [difference for difference in found if difference.name not in PRICED]
    if target.whole_loss and further_logits(job):
        found.append(
            Difference(
                name="loss",
                plan="logits of one sequence's share at once",
                trainer=f"logits of all {job.micro_sequences} sequences of a microbatch",
                why=f"{target.title} has no chunked loss that its files can ask for",
                extra_bytes=further_logits(job),
            )
        )
    return found


def _noted(imported: Imported, request: SearchRequest) -> Imported:
    """Add a note on the priced step, where the cost model lacks the trainer's own."""
    if imported.program.runtime != "torch" or request.program.runtime == "torch":
        return imported
    return replace(imported, notes=(*imported.notes, NOT_OWN))


def opinion(imported: Imported, *, request: SearchRequest, candidate: Candidate) -> Opinion:
    """Price the trainer's needs beyond the cost model, check its rules, and look for a better strategy."""
    own = judged(imported, request=request, candidate=candidate)
    return replace(own, imported=_noted(imported, request), advice=_advice(own, request=request, candidate=candidate))


def _advice(own: Opinion, *, request: SearchRequest, candidate: Candidate) -> Advice:
    """Look for changes of the file, or of its strategy where lcplan changes no setting of such a file."""
    form = form_of(own.imported.trainer)
    if form is None or own.imported.again is None:
        found = advise(request, candidate, trainer=trainer(own.imported.trainer), fits=own.fits)
        kept = [one for one in found.single if _runs(one, own.imported, request)]
        best = found.best if found.best is not None and _runs(found.best, own.imported, request) else None
        single = tuple(one for one in kept if best is not None or one is not kept[0])
        return Advice(best or next(iter(kept), None), single, found.why_none)
    return file_advice(Question(request, own.imported, candidate, own.fits, _judge, form))


def _runs(change: Change, imported: Imported, request: SearchRequest) -> bool:
    """Whether a change of the strategy keeps the rules of the file and fits with its own needs."""
    return judged(imported, request=request, candidate=change.candidate).fits


def _judge(imported: Imported, request: SearchRequest, candidate: Candidate) -> Opinion:
    return judged(imported, request=request, candidate=candidate)


def judged(imported: Imported, *, request: SearchRequest, candidate: Candidate) -> Opinion:
    """Price the trainer's needs beyond the cost model and check its rules; without advice."""
    assert isinstance(request.workload, Workload), "a trainer's file describes a train step"
    job = Job(request.model, request.hardware, request.workload, candidate.strategy)
    differences = _beyond(imported, job, priced=request.program.runtime == "torch")
    estimate = candidate.estimate
    extra = _beyond_bytes(differences, estimate["memory_bytes"])
    memory = int(estimate["memory_bytes"]["total"]) + extra
    pool = RESERVED_OF_ALLOCATED - 1.0 if request.program.runtime == "torch" else 0.0
    allowance = int(estimate["allowance_bytes"] + pool * extra)
    host = (int(estimate["host_bytes"]) + sum(one.host_bytes for one in differences)) * job.devices_per_host
    share = request.hardware.device.host_memory_bytes
    room = None if share is None else round(share.value * request.hardware.node_size)
    holds = room is None or host <= room
    refused = refusals(imported, job, budget_bytes=request.budget_bytes)
    return Opinion(
        imported=imported,
        differences=tuple(differences),
        refusals=refused,
        memory_bytes=memory,
        allowance_bytes=allowance,
        host_bytes=host,
        host_memory_bytes=room,
        fits=memory + allowance <= request.budget_bytes and holds and not imported.unpriced and not refused,
        advice=Advice(None, ()),
    )


def _beyond_bytes(differences: list[Difference], parts: Mapping[str, int]) -> int:
    """Add up the differences; not more of the state leaves a device than it holds."""
    held = sum(parts[name] for name in ("params", "optimizer", "grads"))
    leaving = sum(one.extra_bytes for one in differences if one.extra_bytes < 0 and one.name in OF_STATE)
    return sum(one.extra_bytes for one in differences) - min(0, held + leaving)


def refusals(imported: Imported, job: Job, *, budget_bytes: int) -> tuple[str, ...]:
    """List why the trainer does not run the job, or runs it wrongly: by its rules and by its file."""
    target = trainer(imported.trainer)
    setting = Setting(model=job.model, hardware=job.hardware, workload=job.workload, budget_bytes=budget_bytes)
    table = StrategyTable.from_strategies([job.strategy])
    rules = [rule for rule in target.rules if rule.name not in imported.waives]
    broken = [rule.explain(setting, job.strategy) for rule in rules if rule.broken(setting, table)[0]]
    return (*broken, *imported.refuses(job))


def refused_too(imported: Imported, *, request: SearchRequest, strategy: Strategy) -> list[str]:
    """List the trainer's refusals of a strategy that lcplan does not price, so that the reader has both."""
    assert isinstance(request.workload, Workload), "a trainer's file describes a train step"
    job = Job(request.model, request.hardware, request.workload, strategy)
    found = refusals(imported, job, budget_bytes=request.budget_bytes)
    return [f"{trainer(imported.trainer).title} on {imported.file}: {problem}" for problem in found]
