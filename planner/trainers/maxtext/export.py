"""MaxText: the configuration of the plan's kind of workload, and the environment."""

from __future__ import annotations

from lcplan.evidence.plan import Plan
from planner.trainers import Translation
from planner.trainers.common.export_files import Written
from planner.trainers.maxtext.configuration.post_train import rl_export
from planner.trainers.maxtext.configuration.pre_train import train_export


def export(translation: Translation, plan: Plan) -> Written:
    """The configuration and its launch line."""
    return train_export(translation, plan) if translation.job.iteration is None else rl_export(translation, plan)
