"""Toy's JSON."""

from __future__ import annotations

import json

from lcplan.evidence.plan import Plan
from planner.trainers import Translation
from planner.trainers.common.export_files import Launch, Written
from planner.trainers.common.jax_environment import jax_environment
from toy_trainer.facts import FILE


def export(translation: Translation, plan: Plan) -> Written:
    """The file and its launch line."""
    strategy = translation.job.strategy
    settings = {"mesh": strategy.mesh.model_dump(), "checkpointing": strategy.remat == "full"}
    launch = Launch(("python3", "-m", "toy", FILE), jax_environment(translation, plan))
    return Written({FILE: json.dumps(settings)}, launch, check={"layers": translation.job.model.layers})
