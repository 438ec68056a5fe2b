"""Tensors of a layer that a MaxText configuration keeps for the backward pass, and where (``get_remat_policy`` of 0.2.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from cost_models.estimate import estimate
from cost_models.inputs.program import STEP, Program
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from lcplan.strategy.remat import LAYER_IN, RematName
from planner.trainers import Job
from planner.trainers.common.nearest_remat import nearest_superset
from planner.trainers.maxtext import experts
from planner.trainers.maxtext.facts import SAVED

_QKV, _OUT, _MLP = ("query", "key", "value"), ("attention_out",), ("gate", "up")
REMAT: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "full": (),
        "save_out_proj": _OUT,
        "save_qkv_proj": _QKV,
        "save_dot_except_mlp": (*_QKV, *_OUT),
        "save_dot_with_context_except_mlp": (*_QKV, "attention_output", "lse", *_OUT),
        "save_dot_except_mlpwi": (*_QKV, *_OUT),
        "minimal": (*_QKV, *_OUT, *_MLP),
        "minimal_with_quantization": (*_QKV, *_OUT, *_MLP),
        "minimal_with_context": (*_QKV, "attention_output", "lse", *_OUT, *_MLP),
        "minimal_flash": (*_QKV, "attention_output", "lse", *_OUT, *_MLP),
        "minimal_with_context_and_quantization": (*_QKV, "attention_output", "lse", *_OUT, *_MLP),
        "none": (*_QKV, "attention_output", "lse", *_OUT, *_MLP),
    }
)
"""lcplan's named tensors that each of MaxText's policies saves on the device; ``custom`` lists its own."""
OFFLOADED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"qkv_proj_offloaded": _QKV, "minimal_offloaded": (*_QKV, *_OUT, *_MLP)}
)
"""Tensors that MaxText's offloading policies send to the host."""
_JOINED: Mapping[str, tuple[str, ...]] = MappingProxyType({"qkv_proj": _QKV, "kv_proj": ("key", "value"), "mlpwi": _MLP})
"""Checkpoint names of fused products, in addition to ``SAVED``. The feed-forward's result (``mlpwo``) is nowhere read again
in a layer's backward pass, so that JAX keeps it under no policy."""


@dataclass(frozen=True)
class Kept:
    """Tensors of a layer by where they wait for its backward pass."""

    device: tuple[str, ...]
    away: tuple[str, ...]

    @property
    def priced(self) -> tuple[RematName, bool]:
        """lcplan's nearest policy that keeps at least as much, and whether it keeps just these."""
        return nearest_superset(self.device, self.away)


def kept(values: Mapping[str, Any], *, file: str) -> Kept:
    """Read the tensors that the configuration keeps.

    Raises
    ------
    BadInputError
        A policy that MaxText does not have, with the nearest.
    """
    policy = str(values["remat_policy"])
    if policy in OFFLOADED:
        return Kept((), OFFLOADED[policy])
    if policy == "none" and values.get("scan_layers", True):
        return Kept((), ())  # the scan is wrapped in jax.checkpoint all the same, with no policy (nnx_decoders.py)
    if policy in REMAT:
        return Kept(REMAT[policy], ())
    if policy != "custom":
        raise BadInputError(f"{file}: MaxText has no remat_policy {policy!r}{hint(policy, (*REMAT, *OFFLOADED, 'custom'))}")
    places = (_ours(values, place) for place in ("device", "offload"))
    return Kept(*places)


def _ours(values: Mapping[str, Any], place: str) -> tuple[str, ...]:
    """lcplan's names of the tensors that ``custom`` puts in a place."""
    found = {ours for ours, names in SAVED.items() if any(values.get(name) == place for name in names)}
    found |= {ours for ours, name in experts.SAVED.items() if values.get(name) == place}
    found |= {ours for name, several in _JOINED.items() if values.get(name) == place for ours in several}
    return tuple(sorted(found))


def own_program(tensors: Kept) -> Program:
    """The step of docs/step.md with the file's own tensors kept."""
    saved = tuple(name for name in (*tensors.device, *tensors.away) if name != LAYER_IN)
    return STEP.model_copy(update={"saved": saved, "offloaded": tensors.away})


def priced_bytes(job: Job, program: Program = STEP) -> int:
    """Return the modelled memory of the job's step [bytes per device]."""
    budget = job.hardware.usable_bytes
    setting = Setting(model=job.model, hardware=job.hardware, workload=job.workload, budget_bytes=budget, program=program)
    return int(estimate(setting, StrategyTable.from_strategies([job.strategy])).row(0)["memory_bytes"]["total"])
