"""Translation: the strategy as a trainer will run it, and every difference from the strategy as planned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lcplan.formats.errors import BadInputError
from lcplan.formats.units import format_tokens
from lcplan.strategy import AXIS_ORDERS, STEP_KNOBS, Strategy
from planner.trainers.common.interface import Difference, Job, KnobName, Trainer
from planner.trainers.common.programs import priced_as

Fits = Callable[[Strategy], bool]


@dataclass(frozen=True)
class Translation:
    """``job`` as ``trainer`` runs it."""

    trainer: Trainer
    jax: str
    job: Job
    differences: tuple[Difference, ...]

    @property
    def extra_bytes(self) -> int:
        """Bytes per device beyond the cost model, for the job as run."""
        return sum(difference.extra_bytes for difference in self.differences)


def translate(trainer: Trainer, job: Job, *, fits: Fits, jax: str = "") -> Translation:
    """The job as the trainer runs it.

    Parameters
    ----------
    trainer
        Whose.
    job
        As planned.
    fits
        Whether the trainer can run a strategy within the budget; decides between several ways to run a knob's value.
    jax
        The trainer's jax version where it differs from the verified one.

    Raises
    ------
    BadInputError
        The trainer cannot run the model or the hardware at all; every reason.
    """
    refused = trainer.refusals(job.hardware, job.model)
    if refused:
        raise BadInputError([f"{trainer.name}: {problem}" for problem in refused])
    jax = jax or trainer.jax
    planned, differences = job, []
    job = job.with_strategy(**{knob.name: knob.default for knob in trainer.lacks})
    knobs = trainer.knobs(job.hardware, jax)
    for name in (name for name in STEP_KNOBS if name in knobs):
        job, difference = _knob(trainer, job, name=name, jax=jax, fits=fits)
        differences += difference
    differences += _without_key(trainer, job, planned=planned)
    for step in (_replicas, _expert_ranks, _loss, _axis_order, _documents):
        job, difference = step(trainer, job)
        differences += difference
    return Translation(trainer, jax, job, (*differences, *trainer.extras(job)))


Step = tuple[Job, list[Difference]]


def _without_key(trainer: Trainer, job: Job, *, planned: Job) -> list[Difference]:
    """Knobs that the plan sets and the trainer's files cannot, where they mean something in the job as the trainer runs it."""
    return [
        Difference(
            name=knob.word,
            plan=knob.stated(planned.strategy.knob(knob.name)),
            trainer=knob.stated(knob.default),
            why=f"lcplan knows no key of {trainer.title} for it",
            field=knob.name,
        )
        for knob in trainer.lacks
        if planned.strategy.knob(knob.name) != knob.default and knob.is_active(job.strategy)
    ]


def _knob(trainer: Trainer, job: Job, *, name: KnobName, jax: str, fits: Fits) -> Step:
    if name == "scheme" and job.strategy.mesh.context == 1:
        return job, []
    knob = trainer.knobs(job.hardware, jax)[name]
    planned = str(getattr(job.strategy, name))
    choices = knob.runs[planned]
    fitting = (value for value in choices[:-1] if fits(job.with_strategy(**{name: value}).strategy))
    runs = next(fitting, choices[-1])
    if runs == planned:
        return job, []
    exchange = {"ulysses": 1} if name == "scheme" else {}
    return job.with_strategy(**{name: runs}, **exchange), [
        Difference(name=name.replace("_", "-"), plan=planned, trainer=runs, why=knob.why, field=name)
    ]


def _documents(trainer: Trainer, job: Job) -> Step:
    length = job.workload.document_len
    why = None if length is None else trainer.documents_lost(job)
    if length is None or why is None:
        return job, []
    difference = Difference(
        name="documents",
        plan=f"attention inside documents of {format_tokens(length)} tokens",
        trainer="attention over whole sequences",
        why=why,
        field="workload",
    )
    return replace(job, workload=job.workload.model_copy(update={"document_len": None})), [difference]


def _replicas(trainer: Trainer, job: Job) -> Step:
    mesh = job.strategy.mesh
    if trainer.replicates or mesh.data == 1:
        return job, []
    merged = mesh.model_copy(update={"data": 1, "fsdp": mesh.data * mesh.fsdp})
    difference = Difference(
        name="data-axis",
        plan=f"state on {job.strategy.state_shards} devices, {mesh.data} replicas of it",
        trainer=f"state on {job.strategy.state_shards * mesh.data} devices, no replica",
        why=f"{trainer.title} shards over every rank that has its own batch",
        field="mesh",
    )
    return job.with_strategy(mesh=merged), [difference]


def _expert_ranks(trainer: Trainer, job: Job) -> Step:
    """Fold an expert axis that has context ranks outside it, where the trainer's expert ranks start from the innermost."""
    mesh = job.strategy.mesh
    whole = mesh.tensor > 1 and not trainer.splits_experts
    if not trainer.folds_experts or mesh.expert == 1 or (mesh.context == 1 and not whole):
        return job, []
    names = "tensor, context and fsdp" if whole else "context and fsdp"
    difference = Difference(
        name="expert-ranks",
        plan=f"an axis of {mesh.expert}, with sequences of its own, inside context",
        trainer=f"the innermost {mesh.expert} ranks of {names}" + (", which hold whole experts" if whole else ""),
        why=f"{trainer.title} folds expert ranks over the other axes; context ranks are then neighbours",
        field="mesh",
        with_fields=("expert_fold", "expert_tensor"),
    )
    folded = mesh.model_copy(update={"fsdp": mesh.fsdp * mesh.expert, "expert": 1})
    kind = "whole" if whole else "split"
    return job.with_strategy(mesh=folded, expert_fold=mesh.expert, expert_tensor=kind), [difference]


def _loss(trainer: Trainer, job: Job) -> Step:
    whole = job.workload.seq_len // job.strategy.mesh.context
    own = priced_as(trainer.program, hardware=job.hardware, model=job.model)
    counted = own.runtime == "torch" or not further_logits(job)
    is_whole = trainer.whole_loss or (trainer.whole_policy_loss and job.iteration is not None)
    if not is_whole or (job.strategy.loss_chunk_tokens == whole and counted):
        return job, []
    difference = Difference(
        name="loss",
        plan=f"logits of {job.strategy.loss_chunk_tokens} tokens at a time",
        trainer=f"logits of all {job.local_tokens} tokens of a context rank at once",
        why=f"{trainer.title} has no chunked loss that its files can ask for",
        field="loss_chunk_tokens",
        extra_bytes=further_logits(job),
    )
    return job.with_strategy(loss_chunk_tokens=whole), [difference]


def further_logits(job: Job) -> int:
    """Count logits and their gradient in fp32 beyond the first sequence, the largest chunk of the cost model."""
    further = job.local_tokens - job.workload.seq_len // job.strategy.mesh.context
    return round(8 * further * job.model.vocab / job.strategy.mesh.tensor)


def _axis_order(trainer: Trainer, job: Job) -> Step:
    order, usual = job.strategy.axis_order, AXIS_ORDERS[0]
    if trainer.any_axis_order or order == usual:
        return job, []
    mesh = job.strategy.mesh
    difference = Difference(
        name="axis-order",
        plan=", ".join(axis for axis in order if getattr(mesh, axis) > 1),
        trainer=", ".join(axis for axis in usual if getattr(mesh, axis) > 1),
        why=f"{trainer.title} places its axes in one order, from crossing nodes to neighbouring devices",
        field="axis_order",
    )
    return job.with_strategy(axis_order=usual), [difference]
