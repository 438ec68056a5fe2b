"""Tune: try knob values that a grid cannot cover around the best meshes of a search, with Optuna, within a budget."""

from planner.run.tune.budget import Budget
from planner.run.tune.run import tune

__all__ = ["Budget", "tune"]
