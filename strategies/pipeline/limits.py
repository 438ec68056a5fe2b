"""Limits of the pipelined step, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator

from lcplan.strategy import BUILT_SCHEDULES, VIRTUAL_SCHEDULES
from lcplan.strategy.remat import OFFLOAD_PERCENT
from strategies.inputs.step_spec import StepSpec


def pipeline_limits(spec: StepSpec) -> Iterator[str]:
    """List the reasons why the stages of ``spec`` cannot be built."""
    if not spec.piped:
        return
    strategy = spec.strategy
    if strategy.schedule not in BUILT_SCHEDULES:
        yield f"schedule={strategy.schedule} is priced, not built; use {', '.join(BUILT_SCHEDULES)}"
    if strategy.sharding_mode != "manual":
        yield (
            f"pipe={strategy.mesh.pipe} with sharding_mode={strategy.sharding_mode}: stages are written out by hand; use"
            " sharding_mode=manual"
        )
    if (strategy.master_dtype, strategy.grad_dtype) != ("fp32", "fp32"):
        yield (
            f"pipe={strategy.mesh.pipe} with master_dtype={strategy.master_dtype} and grad_dtype={strategy.grad_dtype}: stages"
            " add gradients up in the dtype of the weights; use fp32 for both"
        )
    if strategy.offload_percent != OFFLOAD_PERCENT:
        yield (
            f"offload_percent={strategy.offload_percent} with pipe={strategy.mesh.pipe}: all layers of a stage offload; use"
            f" {OFFLOAD_PERCENT}"
        )
    if spec.objective is not None:
        yield (f"pipe={strategy.mesh.pipe} with workload rl: its other programs have all layers on each device; use pipe=1")
    yield from _chunks(spec)
    yield from _shares(spec)


def _chunks(spec: StepSpec) -> Iterator[str]:
    """Layers and microbatches by virtual stage."""
    model, strategy = spec.model, spec.strategy
    pipe, chunks = strategy.mesh.pipe, strategy.virtual_stages
    if len(model.layer_runs) > 1:
        yield (
            f"pipe={pipe}: model {model.name} has {len(model.layer_runs)} runs of layers of different kinds, and all stages"
            " run one program; use pipe=1"
        )
    elif spec.stages > model.layer_runs[0].repeats:
        yield (
            f"pipe x virtual_stages={spec.stages} is more than the {model.layer_runs[0].repeats} iterations of the layers of"
            f" {model.name}; use fewer"
        )
    if chunks > 1 and strategy.schedule in BUILT_SCHEDULES and strategy.schedule not in VIRTUAL_SCHEDULES:
        several = "circular" if strategy.schedule == "gpipe" else "interleaved"
        yield f"virtual_stages={chunks} with schedule={strategy.schedule}; use schedule={several}, or virtual_stages=1"
    if chunks > 1 and strategy.microbatches % pipe:
        yield (
            f"pipe={pipe} does not divide microbatches={strategy.microbatches}, and with virtual_stages={chunks} they pass in"
            f" groups of {pipe}; use a multiple of {pipe}, or virtual_stages=1"
        )


def _shares(spec: StepSpec) -> Iterator[str]:
    """Rows and columns by stage."""
    mesh, workload = spec.strategy.mesh, spec.workload
    shards = mesh.fsdp * mesh.context * mesh.expert * mesh.pipe
    if spec.model.d_model % shards:
        yield (
            f"fsdp x context x expert x pipe={shards} does not divide d_model={spec.model.d_model}; embedding and head are"
            " split over it along D"
        )
    sequences = mesh.batch_ranks * spec.strategy.microbatches
    tokens = workload.global_batch // sequences * (workload.seq_len // mesh.context)
    if tokens % (mesh.tensor * mesh.pipe):
        yield (
            f"tensor x pipe={mesh.tensor * mesh.pipe} does not divide tokens of a microbatch on a context rank={tokens}; each"
            " stage embeds its share of them"
        )
