"""The target ``jax``: lcplan's own step, which runs every strategy that lcplan has."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.spec.hardware import HardwareSpec
from lcplan.strategy import BACKENDS, COLLECTIVE_MATMULS, SCHEMES, STEP_KNOBS, Strategy
from lcplan.strategy.remat import REMAT_POLICIES
from planner.measure.targets.backends import GPU_BACKENDS, backend_verdict
from planner.rules.interface import Mask, Rule
from planner.trainers.common.interface import Knob, KnobName, Trainer
from planner.trainers.common.knobs import any_dispatch, as_is, either_dtype, instead

JAX = "0.10.1"

FILE = "train_step.py"


def knobs(_: HardwareSpec, jax: str) -> Mapping[KnobName, Knob]:
    """Run every value unchanged, except a backend that this jax lacks."""
    missing = tuple(name for name in GPU_BACKENDS if backend_verdict(name, jax) is not True)
    return {
        "scheme": Knob(as_is(*SCHEMES)),
        "remat": Knob(as_is(*REMAT_POLICIES)),
        "backend": Knob({**as_is(*BACKENDS), **instead("nccl", of=missing)}, f"jax {jax} does not have this backend"),
        "collective_matmul": Knob(as_is(*COLLECTIVE_MATMULS)),
        "moe_dispatch": any_dispatch(),
        "gather_dtype": either_dtype(),
        "reduce_dtype": either_dtype(),
        "moments_dtype": Knob(as_is(*STEP_KNOBS["moments_dtype"].values)),
    }


def _folded(_: Setting, table: StrategyTable) -> Mask:
    return np.asarray(table.expert_fold > 1)


def _say_folded(_: Setting, strategy: Strategy) -> str:
    fold = strategy.expert_fold
    return f"expert_fold={fold}: the expert ranks of lcplan's own step are an axis; plan with --mesh expert={fold}"


TRAINER = Trainer(
    name="jax",
    title="lcplan's own step",
    package="lcplan",
    version="",
    file=FILE,
    kinds=("gpu", "tpu", "cpu"),
    knobs=knobs,
    rules=(Rule("jax-expert-fold", "knob", _folded, _say_folded),),
    any_axis_order=True,
    jax=JAX,
    own_step=True,
    experts=True,
    pipeline=True,
    windows=True,
    precisions=("bf16", "fp32"),
    workloads=("train", "sample", "rl"),
)
