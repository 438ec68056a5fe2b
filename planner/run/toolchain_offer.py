"""Abilities of a toolchain on a piece of hardware: the real backends, and the last stage that it can reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lcplan.formats.errors import BadInputError, StageFailedError
from lcplan.strategy.attention_kernel import SPLASH_LANES, cudnn_largest_head_dim
from planner.measure.engines.interface import Engine
from planner.measure.jobs import LOCAL
from planner.measure.targets.at_hand import devices_at_hand
from planner.measure.targets.schedulers import scheduler_verdict
from planner.measure.targets.toolchain import Toolchain
from planner.request.request import SearchRequest, Stage
from planner.space.analysis import setting_of


@dataclass(frozen=True)
class Offer:
    """The backends that enter the space, and notes on the backends that do not."""

    backends: tuple[str, ...]
    notes: tuple[str, ...]


def offer(toolchain: Toolchain, request: SearchRequest) -> Offer:
    """Which backends of the request's hardware are real under ``toolchain``.

    NCCL is priced even where nothing can be compiled for a GPU; the note names the missing extra.

    Raises
    ------
    BadInputError
        The request insists on a backend that this hardware or this toolchain does not have.
    """
    own = request.hardware.backends
    verdicts = {name: toolchain.backends.get(name, "not known to this toolchain") for name in own}
    real = tuple(name for name in own if verdicts[name] is True)
    target = toolchain.targets.get(request.hardware.compiler, "not known to this toolchain")
    _refuse(request, real or own[:1], verdicts)
    _refuse_schedulers(request, toolchain)
    if target is not True:
        missing = f"{request.hardware.device.name} cannot be compiled for here ({target}); "
        missing += (
            "compiles have the evidence level compiled:host: they show that the step builds, and its memory stays modelled"
        )
        return Offer(real or own[:1], (*_unpriced(request), *_slow_kernel(request), missing))
    return Offer(real, (*_unpriced(request), *_slow_kernel(request), *_unreal(verdicts)))


def _slow_kernel(request: SearchRequest) -> tuple[str, ...]:
    """Warn that no fused kernel takes the model's heads: the step then takes several times as long."""
    model, kernel = request.model, setting_of(request).kernel
    if request.hardware.kind == "cpu" or kernel in ("cudnn", "splash"):
        return ()
    if request.hardware.vendor == "amd":
        return (
            f"jax has no fused attention for AMD GPUs: {kernel} JAX attention runs instead; a trainer with a kernel for them "
            "(Transformer Engine's, as MaxText and Megatron use it on ROCm) is faster",
        )
    if not request.hardware.fused_attention:
        return (
            f"jax has no fused attention for {request.hardware.device.name}: {kernel} JAX attention runs instead, in several "
            "times the time",
        )
    tpu, gpu = request.hardware.kind == "tpu", request.hardware.device.gpu
    largest = cudnn_largest_head_dim(None if gpu is None else gpu.compute_capability)
    takes = f"multiples of {SPLASH_LANES}" if tpu else f"multiples of 8 up to {largest} on {request.hardware.device.name}"
    heads = f"head_dim={model.head_dim} is not one that"
    if model.latent is not None:
        heads, takes = f"keys of {model.key_dim} with values of {model.value_dim} are no pair that", "one size of both"
    return (
        f"{heads} {'splash' if tpu else 'cuDNN'} attention takes ({takes}): {kernel} JAX attention runs instead; "
        "a trainer with a kernel for these heads is faster",
    )


def _unreal(verdicts: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(f"backend {name} is not offered: {why}" for name, why in verdicts.items() if why is not True)


def _refuse(request: SearchRequest, offered: tuple[str, ...], verdicts: Mapping[str, object]) -> None:
    problems = []
    for name in request.filters.backend:
        if name not in verdicts:
            problems.append(f"--backend {name}: {request.hardware.name} has {', '.join(verdicts)}")
        elif name not in offered:
            problems.append(f"--backend {name}: {verdicts[name]}; give a Python that has it with --toolchain")
    if problems:
        raise BadInputError(problems)


def _refuse_schedulers(request: SearchRequest, toolchain: Toolchain) -> None:
    problems = []
    for name in request.filters.scheduler:
        verdict = scheduler_verdict(name, request.hardware, jax=toolchain.jax or "0")
        if verdict is not True:
            problems.append(f"--scheduler {name}: {verdict}")
    if problems:
        raise BadInputError(problems)


def _unpriced(request: SearchRequest) -> tuple[str, ...]:
    """Note the knob values that the cost models do not distinguish."""
    modes = [mode for mode in request.filters.sharding_mode if mode != "manual"]
    schedulers = [name for name in request.filters.scheduler if name != "default"]
    notes = []
    if modes:
        notes.append(
            f"sharding_mode={','.join(modes)}: the estimate is that of the manual step; only a compile shows the difference"
        )
    if schedulers:
        notes.append(
            f"scheduler={','.join(schedulers)}: the cost models do not cover XLA's flags; only a compile shows their effect"
        )
    return tuple(notes)


def check_at_hand(request: SearchRequest, engine: Engine = LOCAL) -> None:
    """Check that the engine can time the survivors, before minutes go into compiles.

    Raises
    ------
    StageFailedError
        This machine has fewer devices of the hardware's kind than the request may take.
    """
    name, wanted, found = request.hardware.name, _wanted(request), engine.devices(request.hardware)
    if found is not None and found < wanted:
        fewer = f"--devices {found}, " if found else ""
        raise StageFailedError(
            f"{name}: --stages timed may take {wanted} devices, {found} of them are here; use {fewer}--stages compiled, or "
            "an --engine whose workers have them"
        )


def default_stage(request: SearchRequest) -> Stage:
    """Timed where as many devices of the hardware's kind as the request may take are in this machine, else compiled.

    Modelled where no step computes the model, or the strategies that are asked for.
    """
    if request.not_built:
        return "modelled"
    return "timed" if devices_at_hand(request.hardware) >= _wanted(request) else "compiled"


def _wanted(request: SearchRequest) -> int:
    """Devices that the request may take."""
    return request.devices or request.hardware.devices
