"""Knobs of the bytes that a step keeps for each parameter: optimizer, dtypes of the state, and which parameters are trained."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from lcplan.strategy.knob import Knob

Optimizer = Literal["adamw", "adamw-8bit", "adafactor", "lion", "muon", "sgd"]
MasterDtype = Literal["fp32", "bf16", "none"]
MomentsDtype = Literal["bf16", "fp32", "fp8", "int8"]
GradDtype = Literal["bf16", "fp32"]

MOMENTS: Mapping[str, float] = MappingProxyType(
    {"adamw": 2.0, "adamw-8bit": 2.0, "adafactor": 0.0, "lion": 1.0, "muon": 1.0, "sgd": 0.0}
)
"""Arrays of a matrix's size that each optimizer keeps. AdamW's are two moments; Lion (arXiv:2302.06675) and Muon (github
KellerJordan/Muon) have one; Adafactor (arXiv:1804.04235) keeps sums of rows and columns in place of the second and no first;
SGD has no momentum here, which is also the default of ``torch.optim.SGD`` and ``optax.sgd``. Muon keeps both moments of AdamW
for the embedding and the head."""
BLOCK = 256
"""Elements that share one fp32 scale of moments in 8 bits: bitsandbytes' (github bitsandbytes-foundation/bitsandbytes,
``quantize_blockwise``), as in 8-bit optimizers (arXiv:2110.02861)."""


def _has_moments(strategy: Any) -> bool:
    return MOMENTS[strategy.optimizer] > 0 and strategy.optimizer != "adamw-8bit"


OptimizerKnob = Annotated[
    Optimizer,
    Knob(
        help="Optimizer; adamw-8bit keeps both moments in int8 blocks",
        workloads=("train",),
        needs_key=True,
    ),
]
MasterKnob = Annotated[
    MasterDtype,
    Knob(
        help="Dtype of the weights that the optimizer updates; none: the bf16 weights themselves, by stochastic rounding",
        workloads=("train",),
        needs_key=True,
    ),
]
MomentsKnob = Annotated[
    MomentsDtype,
    Knob(
        help="Dtype of the optimizer's moments; fp8 and int8 in blocks with a scale",
        active=_has_moments,
        active_when="optimizer has moments",
    ),
]
GradKnob = Annotated[
    GradDtype,
    Knob(help="Dtype in which gradients are stored and added up over microbatches", workloads=("train",), needs_key=True),
]
