"""The target ``jax``: lcplan's own step, which runs every strategy that lcplan has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.model import ModelSpec
from lcplan.strategy import BACKENDS, COLLECTIVE_MATMULS, SCHEMES, Dtype
from lcplan.strategy.remat import REMAT_POLICIES
from planner.measure.targets.backends import GPU_BACKENDS, backend_verdict
from planner.trainers.common.interface import Difference, Job, Knob, KnobName, Trainer, as_is, instead

JAX = "0.10.1"


def knobs(_: HardwareSpec, jax: str) -> Mapping[KnobName, Knob]:
    """Everything as it is, but for a backend that this jax lacks."""
    missing = tuple(name for name in GPU_BACKENDS if backend_verdict(name, jax) is not True)
    dtypes = Knob(as_is(*get_args(Dtype)))
    return {
        "scheme": Knob(as_is(*SCHEMES)),
        "remat": Knob(as_is(*REMAT_POLICIES)),
        "backend": Knob({**as_is(*BACKENDS), **instead("nccl", of=missing)}, f"jax {jax} does not have this backend"),
        "collective_matmul": Knob(as_is(*COLLECTIVE_MATMULS)),
        "gather_dtype": dtypes,
        "reduce_dtype": dtypes,
        "moments_dtype": dtypes,
    }


def model_problems(_: ModelSpec) -> list[str]:
    """The step is built for every model that lcplan has."""
    return []


def extras(_: Job) -> list[Difference]:
    """None: the laws price this very step."""
    return []


TRAINER = Trainer(
    name="jax",
    title="lcplan's own step",
    package="lcplan",
    version="",
    kinds=("gpu", "tpu", "cpu"),
    knobs=knobs,
    rules=(),
    model_problems=model_problems,
    extras=extras,
    documents_lost=lambda job: None,
    any_axis_order=True,
    attention_tiles=True,
    offload_shares=True,
    two_directions=True,
    jax=JAX,
)
