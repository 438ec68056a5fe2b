"""Toy 1.0: one JSON file, gathers over context, checkpointing on or off."""

from __future__ import annotations

from collections.abc import Mapping

from lcplan.spec.hardware import HardwareSpec
from lcplan.strategy import SCHEMES
from planner.trainers.common.interface import Format, Knob, KnobName, Trainer
from planner.trainers.common.knobs import all_or_nothing, always, instead, jax_knobs, moments
from planner.trainers.common.rules import kv_heads_rule

FILE = "toy.json"


def knobs(_: HardwareSpec, jax: str) -> Mapping[KnobName, Knob]:
    """Each knob as Toy has it."""
    return jax_knobs("Toy", jax) | {
        "scheme": Knob(instead("all-gather", of=SCHEMES), "Toy gathers keys and values"),
        "remat": all_or_nothing("checkpointing is true or false"),
        "gather_dtype": always("bf16", "Toy gathers in bf16"),
        "reduce_dtype": always("fp32", "Toy reduces in fp32"),
        "moments_dtype": moments("fp32", why="Toy has fp32 moments"),
    }


TRAINER = Trainer(
    name="toy",
    title="Toy 1.0",
    package="toy-trainer",
    version="1.0",
    file=FILE,
    kinds=("gpu",),
    knobs=knobs,
    rules=(kv_heads_rule("toy"),),
    reads=Format("FILE.json", "a Toy configuration", unsaid=("model", "seq", "global_batch", "microbatches")),
    jax="0.11.2",
)
